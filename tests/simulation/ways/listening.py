"""The way `listening`: a plugin hears what happens beside deliveries, and writes down what it was told.

What it was told is held against what happened (`checkers/listeners_are_told.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from framework.hooks import hookimpl
from framework.model.pulled import ChunkSummary
from framework.model.queue import MessageQueue
from framework.testing.sim.streams import Stream
from tests.simulation.facts import Fact
from tests.simulation.recorder import Recorder
from tests.simulation.ways.facts import ToldChunk, ToldGains, ToldOffsets
from tests.simulation.workload import GroupLoad, Workload


def dress(workload: Workload, chance: Stream) -> Workload:
    return replace(workload, is_heard=True)


def goes(workload: Workload, load: GroupLoad) -> bool:
    return workload.is_heard


class Listener:
    """Of all groups of a run."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @hookimpl
    def assignment_changed(self, group: str, gained: Sequence[MessageQueue], lost: Sequence[MessageQueue]) -> None:
        if group in self._recorder.history.popping:  # its queues are everybody's
            return
        self._note(ToldGains(*self._now, group, tuple(map(str, gained)), tuple(map(str, lost))))

    @hookimpl
    def offsets_committed(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        self._note(ToldOffsets(*self._now, group, {str(queue): offset for queue, offset in offsets.items()}))

    @hookimpl
    def after_chunk(self, summary: ChunkSummary) -> None:
        self._note(ToldChunk(*self._now, summary.group, str(summary.queue), summary.handled))

    @property
    def _now(self) -> tuple[float, str]:
        return self._recorder.loop.now, self._recorder.who

    def _note(self, fact: Fact) -> None:
        self._recorder.history.facts.append(fact)
