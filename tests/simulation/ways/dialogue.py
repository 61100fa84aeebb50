"""The ways `transactions` and `requests`: messages that wait for a local transaction, and handlers that reply.

Who sends them is `desks.py`. A group that replies says so at its handler; each reply is a text of its own, by which
`checkers/replies_hold.py` tells whose it is. What is not a request is handled as ever.
"""

from __future__ import annotations

from dataclasses import replace

from framework.model.message import Message
from framework.testing.sim.streams import Stream
from tests.simulation.recorder import Recorder
from tests.simulation.ways.facts import Replied
from tests.simulation.workload import GroupLoad, Workload

COUNTS = (8, 16, 32)


def dress_transactions(workload: Workload, chance: Stream) -> Workload:
    return replace(workload, deals=chance.pick(COUNTS))


def has_transactions(workload: Workload, load: GroupLoad) -> bool:
    """A group that is given what was committed."""
    return bool(workload.deals)


def dress_requests(workload: Workload, chance: Stream) -> Workload:
    """The first group that can replies."""
    asks = chance.pick(COUNTS)
    able = [load for load in workload.groups if is_able(load)]
    if not able:
        return workload
    chosen = replace(able[0], replies=True)
    return replace(workload, asks=asks, groups=tuple(chosen if each is able[0] else each for each in workload.groups))


def has_requests(workload: Workload, load: GroupLoad) -> bool:
    return load.replies and bool(workload.asks) and is_able(load)


def is_able(load: GroupLoad) -> bool:
    """Batches, commits by hand and `@publishes` use what is returned themselves; and see `publishing.py`."""
    return not (
        load.batch
        or load.by_hand
        or load.results
        or load.broadcasting
        or load.timeout_s
        or load.publishes
        or load.tags
        or load.pops
    )


class Replying:
    """What one group's handlers reply, in one process."""

    def __init__(self, group: str, recorder: Recorder) -> None:
        self._group, self._recorder = group, recorder
        self._count = 0

    def of(self, message: Message) -> str:
        self._count += 1
        ask, who = message.body.decode(), self._recorder.who
        reply = f"reply {self._count} of {who} to {ask}"
        if ask.startswith("ask-"):
            self._recorder.history.facts.append(Replied(self._recorder.loop.now, who, ask, reply))
        return reply
