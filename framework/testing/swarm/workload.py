"""Workload: what a simulated cluster has to do: topics, groups, how handlers behave, how fast producers send.

Behaviour is drawn from the application's own stream, so that one fault more or less does not change what handlers do.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from framework.testing.sim.streams import Stream
from framework.testing.swarm.rare.rare_marks import RareMarks
from framework.testing.swarm.rare.small_limits import SmallLimits

TOPIC, SECOND_TOPIC = "orders", "payments"
DELAYS_MS = (100, 200, 300, 600, 1_000, 1_500, 2_000, 2_500, 3_000, *range(4_000, 13_000, 1_000))
"""A ladder of eighteen short levels: a run of a minute shall see whole lives of retried messages."""


EXPIRY_S = 3.0
KEYS = 3
"""Where the order of keys is kept: so many keys a queue, in turn, so that an offset tells its key."""


UNEVEN = ("consistent_hash", "by_config", "machine_room", "nearby")
"""Strategies that promise an owner for each queue, or for some, and no balance."""


@dataclass(frozen=True, slots=True)
class GroupLoad:
    """How one group's handlers behave."""

    name: str = "billing"
    is_async: bool = True
    orderly: bool | Literal["key"] = False
    concurrency: int = 4
    pauses_s: tuple[float, ...] = (0.002, 0.005, 0.02, 0.1)
    """A handler takes one of these."""
    fail_rate: float = 0.05
    poison_rate: float = 0.01
    """Share of messages that fail at every attempt."""
    stuck_rate: float = 0.0
    stuck_s: float = 8.0
    progress: str = "auto"
    """Where what has ended above a gap is kept."""
    timeout_s: float = 0.0
    """How long a handler may take; shorter than the stuck ones do. 0: as usual, which no run lasts."""
    batch: int = 0
    """So many messages at most at a time; 0: one by one."""
    linger: str = "0s"
    by_hand: bool = False
    """Offsets move when the handler says so, and now and then it takes back what it has done."""
    allocation: str = "averaging"
    explicit_ack: bool = False
    """Nothing returned is no success, and now and then a handler forgets to say more."""
    broadcasting: bool = False
    """Every process is given every message, and keeps its offsets on its own disk."""
    reads_second: bool = False
    """Whether it consumes the second topic, where there is one."""
    skip_older_s: float = 0.0
    skip_backlog: int = 0
    """What it does not want to handle any more; 0: no such rule."""

    def topics(self, workload: Workload) -> tuple[str, ...]:
        """What it consumes."""
        return workload.topics if self.reads_second else (workload.topic,)


@dataclass(frozen=True, slots=True)
class Workload:
    """What a whole run does."""

    topic: str = TOPIC
    second_topic: str = ""
    """Some messages are sent there instead; empty for none."""
    broker_names: tuple[str, ...] = ()
    """Where they are not the usual ones."""
    queues: int = 4
    groups: tuple[GroupLoad, ...] = (GroupLoad(),)
    messages: int = 200
    period_s: float = 40.0
    """The messages are sent over about this long."""
    max_retries: int = 3
    pull_batch: int = 8
    sync_s: float = 0.002
    """How long a sync of a broker's disk may take."""
    drain: str = "5s"
    """How long a leaving application waits for its handlers; shorter than some of them take."""
    is_named: bool = False
    """Applications have the names of their machines, from start to start."""
    app: dict[str, Any] = field(default_factory=dict)
    """Settings of the applications."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Laid over each group's settings."""
    ways: tuple[str, ...] = ()
    """Which of the ways of consuming in `variety.py` this run goes."""
    small: SmallLimits = field(default_factory=SmallLimits)
    """Limits that are smaller than usual."""
    rare: RareMarks = field(default_factory=RareMarks)
    """Marks of the code that are awake."""

    @property
    def topics(self) -> tuple[str, ...]:
        return (self.topic, self.second_topic) if self.second_topic else (self.topic,)


def draw_workload(chance: Stream, *, is_calm: bool) -> Workload:
    """Swarm: each run its own mixture, so that rare mixtures come up at all."""
    groups = [
        GroupLoad(
            name="billing",
            concurrency=chance.pick((1, 2, 4, 8)),
            fail_rate=chance.pick((0.0, 0.05, 0.2)),
            poison_rate=chance.pick((0.0, 0.02)),
            stuck_rate=0.0 if is_calm else chance.pick((0.0, 0.0, 0.02)),
            stuck_s=chance.pick((8.0, 40.0)),
        )
    ]
    if chance.happens(0.3):
        groups.append(GroupLoad(name="audit", is_async=False, concurrency=chance.pick((1, 4)), fail_rate=0.02))
    workload = Workload(
        queues=chance.pick((2, 4, 6)),
        groups=tuple(groups),
        messages=chance.pick((30, 70, 110)),
        pull_batch=chance.pick((2, 8, 32)),
        sync_s=chance.pick((0.002, 0.02, 0.2)),
    )
    # Last, so that what is drawn for the others stays what it was.
    if chance.happens(0.25):
        groups.append(
            GroupLoad(
                name="inventory", orderly=True, is_async=chance.happens(0.7), concurrency=chance.pick((1, 4)),
                pauses_s=(0.002, 0.005, 0.02), fail_rate=chance.pick((0.0, 0.02)), poison_rate=chance.pick((0.0, 0.01)),
            )
        )  # fmt: skip
        if chance.happens(0.4):
            groups[-1] = replace(groups[-1], orderly="key", concurrency=4)
    if chance.happens(0.3):
        # By what was drawn already, so that seeds stay what they were.
        store = "broker" if workload.queues == 4 else "topic"
        groups[0] = replace(groups[0], progress=store)
        groups = [replace(each, progress=store) if each.orderly else each for each in groups]
    elif workload.messages == 70:
        groups[0] = replace(groups[0], progress="none")
    is_named = chance.happens(0.25)
    if groups[0].stuck_rate and chance.happens(0.5):
        groups[0] = replace(groups[0], timeout_s=EXPIRY_S)
    return replace(workload, groups=tuple(groups), is_named=is_named)
