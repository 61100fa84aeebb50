"""A queue that has stopped although messages wait is named, and its loop is started anew."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from framework import Message, consumer
from framework.errors import BrokerUnreachable
from framework.model.queue import MessageQueue
from framework.runtime.app import App
from framework.runtime.group.group import ConsumerGroup
from framework.testing import Harness
from tests.simulation.watching.sizes import sizes_of

STANDS, GOES_ON = "queue stalled", "queue recovered"


@consumer("orders", "billing")
async def bill(message: Message) -> None: ...


def app_of(desk: Harness) -> App:
    app = desk._cluster.apps[0].app
    assert app is not None
    return app


def group_of(desk: Harness) -> ConsumerGroup:
    (group,) = app_of(desk)._groups
    return group


def pause(desk: Harness) -> None:
    async def pausing() -> None:
        app_of(desk).pause("billing")

    desk._run(pausing())


def end_loops(desk: Harness) -> None:
    """As a defect would: nobody pulls any more, and nobody is told."""

    async def ending() -> None:
        group = group_of(desk)
        for queue in group.owned:
            group._tasks[queue].cancel()

    desk._run(ending())


def test_a_queue_that_is_left_while_its_broker_is_asked_is_not_restarted() -> None:
    """Its loop has ended by then, and nothing is there to be started anew."""
    with Harness(bill) as desk:
        group = group_of(desk)
        ask = group._cluster.brokers.max_offset

        async def ask_and_lose(queue: MessageQueue) -> int:
            group._leave_all([queue])
            return await ask(queue)

        end_loops(desk)
        for _ in range(8):
            desk.send("orders", "tea")
        group._cluster.brokers.max_offset = ask_and_lose  # type: ignore[method-assign]
        desk.sleep("80s")

        assert [] == said(desk, STANDS)
        assert [] == said(desk, "loop failed")


def test_what_was_looked_at_is_not_held_until_the_next_look() -> None:
    """A queue that is left meanwhile would lie in memory with its messages."""
    with Harness(bill) as desk:
        desk.sleep("15s")
        standstill = app_of(desk)._membership.standstill
        assert standstill is not None
        assert set(group_of(desk).owned.values()) <= set(standstill._seen)
        assert not [name for name in sizes_of(standstill) if name.startswith("Window.")]


def said(desk: Harness, event: str) -> list[dict[str, Any]]:
    return [line for line in desk.logs if line["event"] == event]


def test_queues_whose_loops_have_ended_are_named_once_and_go_on() -> None:
    with Harness(bill) as desk:
        end_loops(desk)
        for _ in range(8):
            desk.send("orders", "tea")
        desk.sleep("50s")
        assert [] == desk.events
        assert desk.snapshot().is_ready, "a minute is not over"
        for _ in range(60):
            desk.sleep("500ms")
            if said(desk, STANDS):
                break
        assert not desk.snapshot().is_ready
        events = desk.settle(within="1m")
        desk.sleep("30s")
        assert desk.snapshot().is_ready

        named = said(desk, STANDS)
    assert 8 == len(events)
    assert 8 == sum(line["lag"] for line in named)
    assert len(named) == len({line["queue"] for line in named}) == len(said(desk, GOES_ON))
    assert {("billing", "flowing", "error")} == {(line["group"], line["state"], line["level"]) for line in named}
    assert all(line["pull_age_ms"] >= 60_000 for line in named)


def test_a_quiet_queue_stands_still_from_its_first_waiting_message_on() -> None:
    """And not since it was quiet, which may be for hours."""
    with Harness(bill) as desk:
        end_loops(desk)
        desk.sleep("10m")
        desk.send("orders", "tea")
        desk.sleep("20s")
        (named,) = said(desk, STANDS)

    assert 0 < named["stalled_ms"] <= 20_000
    assert named["pull_age_ms"] >= 600_000


def begin_never(desk: Harness) -> None:
    """Its queues are acquired anew, and where they begin is not answered; all other questions are."""
    group, node = group_of(desk), desk._cluster.apps[0].node
    assert node is not None

    async def unanswered(group: str, queue: MessageQueue) -> int | None:
        raise BrokerUnreachable("no offset is known today")

    async def leave() -> None:
        group._leave_all(group.owned)

    group._cluster.brokers.query_offset = unanswered  # type: ignore[method-assign]
    desk._cluster.loop.spawn(node, leave(), name="leave")  # as its own, so that what it logs is heard
    desk.send("orders", "tea")
    desk.sleep("5m")


def test_a_queue_that_fails_and_is_tried_again_does_not_stand_still() -> None:
    """That it fails was said when it began to. A restart, which a probe would ask for, mends nothing."""
    with Harness(bill) as desk:
        begin_never(desk)

        assert {"no offset is known today"} == {line["reason"] for line in said(desk, "pull failed")}
        assert [] == said(desk, STANDS)


def test_a_queue_that_has_failed_and_is_tried_no_more_stands_still() -> None:
    """A failure is no reason for ever: its loop may have ended since."""
    with Harness(bill) as desk:
        begin_never(desk)
        end_loops(desk)
        desk.sleep("110s")
        (named,) = said(desk, STANDS)

    assert ("positioning", "no offset is known today") == (named["state"], named["reason"])


def test_nobody_is_named_where_nothing_waits_or_somebody_is_at_it() -> None:
    """Quiet queues, a paused group, and a message that takes long: three reasons to stand."""

    @consumer("parcels", "depot")
    async def receive(message: Message) -> None:
        import asyncio

        await asyncio.sleep(300)

    with Harness([bill, receive], settings={"consumers": {"billing": {"paused": False}}}) as desk:
        desk.send("parcels", "tea")
        desk.sleep("4m")

        pause(desk)
        desk.send("orders", "tea")
        desk.sleep("4m")
        assert [] == said(desk, STANDS)

        async def resume() -> None:
            app_of(desk).resume("billing")

        desk._run(resume())
        desk.settle()


WAITS, GO_ON = "queues wait for handlers", "handlers go on"


@pytest.mark.parametrize("places", [2, 20])
def test_where_handlers_hang_they_are_named_and_no_loop_is_restarted(places: int) -> None:
    """With all places taken (2) the queues without a handler of theirs wait, too."""
    free = asyncio.Event()

    @consumer("orders", "billing")
    async def hang(message: Message) -> None:
        await free.wait()

    with Harness(hang, settings={"consumers": {"billing": {"concurrency": places}}}) as desk:
        for _ in range(8):
            desk.send("orders", "tea")
        desk.sleep("50s")
        assert [] == said(desk, WAITS)
        desk.sleep("3m")
        (line,) = said(desk, WAITS)
        assert [] == said(desk, STANDS)
        free.set()
        desk.settle(within="1m")
        desk.sleep("30s")
        assert 1 == len(said(desk, WAITS)) == len(said(desk, GO_ON))

    waiting = {each["queue"] for each in desk.events}
    assert (len(waiting), "warning") == (line["waiting"], line["level"])
    assert (min(places, 8), places) == (line["running"], line["concurrency"])
    assert line["oldest_ms"] >= 60_000
    assert "hang(runtime/test_standstill.py:" in line["place"]
    assert line["message"].startswith("orders@broker-a:")


def test_a_group_that_is_paused_while_a_handler_hangs_waits_for_nobody() -> None:
    free = asyncio.Event()

    @consumer("orders", "billing")
    async def hang(message: Message) -> None:
        await free.wait()

    with Harness(hang) as desk:
        desk.send("orders", "tea")
        desk.sleep("10s")
        pause(desk)
        desk.sleep("3m")
        assert [] == said(desk, WAITS)
        free.set()
