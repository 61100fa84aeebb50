"""Held lines: what an orderly group tries while the handlers of one of its topics fail all: one line at a time.

The messages stay where they are; a line that is held back (`Lane.is_held_back`) starts nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from framework.core.chunk import Chunk
from framework.core.portion import Portion
from framework.services.orderly.desk import Lane
from framework.services.queue.pull import PullLoop


class RunsLanes(Protocol):
    """The crew."""

    def lanes(self) -> Iterator[Lane]: ...
    def startable(self, lane: Lane, now_ms: int) -> Portion | None: ...
    def stand_in_line(self, lane: Lane) -> None: ...


class HeldLines:
    """One per orderly group."""

    def __init__(self, crew: RunsLanes) -> None:
        self._crew, self._trials = crew, 0

    def hold(self, pull: PullLoop) -> None:
        """Its lines find out by themselves."""

    def put(self, pull: PullLoop, chunk: Chunk) -> None:
        """It goes to its lines."""
        pull.crew.offer(chunk)

    def start_one(self, pulls: Iterable[PullLoop], now_ms: int) -> Lane | None:
        """The first message of the line that was tried longest ago, or never."""
        wanted, crew = set(pulls), self._crew
        ready = [
            lane
            for lane in crew.lanes()
            if lane.desk.pull in wanted and not (lane.is_running or lane.is_ready) and crew.startable(lane, now_ms)
        ]
        if not ready:
            return None
        lane = min(ready, key=lambda each: each.trial)
        self._trials += 1
        lane.trial, lane.wakes_ms = self._trials, 0
        crew.stand_in_line(lane)
        return lane

    def is_over(self, trial: object) -> bool:
        assert isinstance(trial, Lane), "these trials are lanes"
        return not (trial.is_running or trial.is_ready)

    def release(self, pull: PullLoop) -> None:
        for lane in self._crew.lanes():
            if lane.desk.pull is pull and lane.line.first is not None:
                self._crew.stand_in_line(lane)
