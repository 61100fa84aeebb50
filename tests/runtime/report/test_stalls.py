"""A handler that blocks the event loop is named while it does, once a stall."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping
from itertools import dropwhile
from typing import Any

from structlog.testing import capture_logs

from framework import Message, consumer
from framework.net.real_world import real_world
from framework.runtime.report.stalls import StallWatch
from tests.patience import until, wait_until
from tests.runtime.test_app import box, run, running, send


class Hands:
    """A clock and a watchman that are moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def now_ms(self) -> int:
        return self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return int(self.now * 1000)

    def attend(self, job: Callable[[], None], name: str) -> None:
        raise AssertionError("a stall is looked at, and asked for by nobody")

    def watch(self, look: Callable[[], None], seconds: float) -> Callable[[], None]:
        return lambda: None


def looked(*steps: float) -> list[str]:
    """What is said by one look after each of these steps of time, while the loop never beats."""

    async def story() -> None:
        hands = Hands()
        watch = StallWatch(hands, 1.0)
        watch.start(hands)
        for step in steps:
            hands.now += step
            watch.look()
        watch.stop()

    with capture_logs() as lines:
        asyncio.run(story())
    return [line["event"].partition(":")[0] for line in lines]


def test_a_stall_is_one_line_however_long_it_lasts() -> None:
    assert [] == looked(0.3, 0.3, 0.3)
    assert ["event loop blocked"] == looked(*[0.3] * 20)


def test_a_process_that_was_stopped_as_a_whole_blames_nobody() -> None:
    assert [] == looked(0.3, 3_600.0, 0.3, 0.3, 0.3)
    assert ["event loop blocked"] == looked(0.3, 3_600.0, *[0.3] * 20), "but for what it does after its return"


def test_who_asks_a_process_that_has_just_returned_hears_of_no_blocked_loop() -> None:
    async def story() -> None:
        hands = Hands()
        watch = StallWatch(hands, 1.0)
        watch.start(hands)
        blocked: list[int] = []
        for step, looks in ((0.9, True), (0.3, True), (3_600.0, False), (0.1, True), (0.9, True), (0.2, True)):
            hands.now += step
            if looks:
                watch.look()
            blocked.append(watch.picture().blocked_ms)
        watch.stop()
        assert [0, 1200, 0, 0, 0, 1100] == blocked

    asyncio.run(story())


def test_a_handler_that_blocks_the_loop_is_named_with_its_place() -> None:
    def told() -> list[MutableMapping[str, Any]]:
        return [line for line in lines if line["event"].startswith("event loop")]

    def here() -> list[MutableMapping[str, Any]]:
        """From the line about this handler on: a busy machine may hold the loop up elsewhere too."""
        return list(dropwhile(lambda line: ".bill(report/test_stalls.py:" not in line.get("place", ""), told()))

    @consumer(topic="orders", group="billing")
    async def bill(message: Message) -> None:
        await until(lambda: not told() or told()[-1]["event"] == "event loop recovered")
        wait_until(here, "the line about a blocked loop")

    async def scenario() -> None:
        async with box() as broker:
            await send(broker, "orders", "x")
            async with running(broker, bill) as app:
                await until(lambda: app.counts.handled == 1 and len(here()) >= 2)

    with capture_logs() as lines:
        run(scenario)
    blocked, recovered = here()[:2]
    assert ("event loop blocked", "worker billing") == (blocked["event"].partition(":")[0], blocked["task"])
    assert "event loop recovered" == recovered["event"]


def test_only_the_real_world_has_a_watchman() -> None:
    assert real_world().watchman is not None
