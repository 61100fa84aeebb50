"""LastLimit: when a process that is to end has had its time, by a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import structlog

from framework.cli.processes.last_limit import TURN_SECONDS, LastLimit

DRAIN_MS, MOST_MS = 10_000, 40_000


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


class AtOnce:
    """Runs on the spot what a watchman would run on a thread."""

    def attend(self, job: Callable[[], None], name: str) -> None:
        job()

    def watch(self, look: Callable[[], None], seconds: float) -> Callable[[], None]:
        return lambda: None


class Scene:
    def __init__(self, *, turns: bool = True) -> None:
        self.clock, self.left, self.words = Clock(), list[int](), 0
        self.said = 0
        self.limit = LastLimit(
            cast("Any", self.clock), lambda: (DRAIN_MS, MOST_MS), places=lambda: ["bill(shop.py:3)"],
            farewell=self._say, word=self._word, leave=self.left.append,
        )  # fmt: skip
        self.limit.begin(AtOnce(), cast("asyncio.AbstractEventLoop", self))
        self._turns = turns

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        """As the loop does that turns, or does not."""
        if self._turns:
            callback()

    def _say(self) -> None:
        self.said += 1

    def _word(self) -> None:
        self.words += 1

    def after(self, seconds: float) -> list[int]:
        self.clock.now += seconds
        self.limit.look()
        return self.left


def test_nothing_is_ended_that_nobody_asked_to_end() -> None:
    assert [] == Scene().after(10_000)


def test_a_loop_that_does_not_turn_behind_the_drain_ends_the_process() -> None:
    scene = Scene(turns=False)
    scene.limit.ask()
    with structlog.testing.capture_logs() as lines:
        assert [] == scene.after(9.9)
        assert [] == scene.after(0.2)
        assert [] == scene.after(TURN_SECONDS)
        assert [75] == scene.after(0.1)

    (line,) = lines
    assert ("process ended", ["bill(shop.py:3)"], "the event loop is blocked") == (
        line["event"],
        line["places"],
        line["reason"],
    )
    assert 1 == scene.said


def test_one_that_turns_has_all_the_time_that_an_end_may_take_and_says_that_it_is_there() -> None:
    scene = Scene()
    scene.limit.ask()

    for _ in range(39):
        assert [] == scene.after(1.0)
    assert scene.words > 20
    assert [75] == scene.after(1.1)


def test_what_is_left_when_all_is_done_has_the_rest_of_the_drain_and_its_own_code() -> None:
    """Threads and child processes, which the interpreter waits for."""
    scene = Scene()
    scene.limit.ask()
    scene.limit.finished(0)

    assert [] == scene.after(9.9)
    assert [0] == scene.after(0.2)
    assert 0 == scene.said, "its last line was said"
