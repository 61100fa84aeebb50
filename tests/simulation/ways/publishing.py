"""The way `publishing`: what handlers return is sent to a topic, before their messages are done.

Each answer has a token of its own, by which brokers' acknowledgements are told apart (`checkers/published_first.py`).
"""

from __future__ import annotations

from dataclasses import replace

from framework.model.message import Message
from framework.testing.sim.streams import Stream
from tests.simulation.recorder import Recorder
from tests.simulation.workload import GroupLoad, Workload

RECEIPTS = "receipts"
NOTHING_RATE = 0.1
"""How often a handler has nothing to say."""


def dress(workload: Workload, chance: Stream) -> Workload:
    """One group that takes messages one by one, in order or not, on threads or not."""
    draw, is_async = chance.random(), chance.happens(0.6)
    able = [load for load in workload.groups if is_able(load)]
    if not able:
        return workload
    chosen = able[int(draw * len(able))]
    load = replace(chosen, publishes=RECEIPTS, is_async=is_async)
    return replace(workload, groups=tuple(load if each is chosen else each for each in workload.groups))


def goes(workload: Workload, load: GroupLoad) -> bool:
    return bool(load.publishes) and is_able(load)


def is_able(load: GroupLoad) -> bool:
    """Batches and commits by hand use what is returned themselves. How a handler's end is written down (`witness.py`)
    knows nothing of those that are given up.
    """
    return not (load.batch or load.by_hand or load.results or load.broadcasting or load.timeout_s or load.pops)


class Receipts:
    """What one group's handlers return, in one process."""

    def __init__(self, group: str, recorder: Recorder, chance: Stream) -> None:
        self._group, self._recorder, self._chance = group, recorder, chance

    def of(self, message: Message) -> object:
        """A text, bytes, JSON, a message or several of them; now and then nothing."""
        if self._chance.happens(NOTHING_RATE):
            return None
        count = self._chance.pick((1, 1, 1, 2, 3))
        tokens = [self._recorder.returned(self._group, message) for _ in range(count)]
        if count > 1:
            return [Message(RECEIPTS, token) for token in tokens]
        (token,) = tokens
        answers: tuple[object, ...] = (token, token.encode(), {"token": token}, Message(RECEIPTS, token, keys=token))
        return self._chance.pick(answers)
