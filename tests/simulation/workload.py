"""Workload: what a simulated cluster has to do: topics, groups, how handlers behave, how fast producers send.

Behaviour is drawn from the application's own stream, so that one fault more or less does not change what handlers do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from tests.simulation.rare.rare_marks import RareMarks
from tests.simulation.rare.small_limits import SmallLimits

TOPIC, SECOND_TOPIC = "orders", "payments"
DELAYS_MS = (100, 200, 300, 600, 1_000, 1_500, 2_000, 2_500, 3_000, *range(4_000, 13_000, 1_000))
"""A ladder of eighteen short levels: a run of a minute shall see whole lives of retried messages."""


EXPIRY_S = 3.0
KEYS = 3
"""Where the order of keys is kept: so many keys a queue, in turn, so that an offset tells its key."""


UNEVEN = ("consistent_hash", "by_config", "machine_room", "nearby")
"""Strategies that promise an owner for each queue, or for some, and no balance."""
MANNERS = ("each", "up to", "from", "all")
"""What a handler of batches does where some failed: answer for each, name the last good one, raise at one, or raise."""


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
    answers: tuple[str, ...] = MANNERS
    """How it may say that some of a batch failed."""
    by_hand: bool = False
    """Offsets move when the handler says so, and now and then it takes back what it has done."""
    allocation: str = "averaging"
    explicit_ack: bool = False
    """Nothing returned is no success, and now and then a handler forgets to say more."""
    broadcasting: bool = False
    """Every process is given every message, and keeps its offsets on its own disk."""
    reads_second: bool = False
    """Whether it consumes the second topic, where there is one."""
    results: str = ""
    """Its handlers return every kind of result there is (`ways/results.py`)."""
    cache_count: int = 0
    """Of its settings; 0: the usual one."""
    replies: bool = False
    """What its handlers return is the reply to a request (`ways/dialogue.py`)."""
    publishes: str = ""
    """The topic that its answers are sent to (`ways/publishing.py`)."""
    once_s: float = 0.0
    """For so long it wants no duplicates (`ways/once.py`); 0: it takes them."""
    once_store: str = ""
    once_by_key: bool = False
    """Else by message ids."""
    tags: tuple[str, ...] = ()
    """It wants messages with one of these alone (`ways/tags.py`); none: everything."""
    by_sql: bool = False
    """Said by a condition on a property."""
    rate: int = 0
    """So many messages a second in each process (`ways/rated.py`); 0: as many as there are."""
    breaker: int = 0
    """So many failures without a success are a bad deploy (`ways/breaking.py`); 0: as many as usual."""
    pops: Literal["", "pop", "broker"] = ""
    """How it takes messages: by pulling, by popping (`ways/popping.py`), or as its brokers are told while it runs."""
    skip_older_s: float = 0.0
    skip_backlog: int = 0
    """What it does not want to handle any more; 0: no such rule."""

    @property
    def is_witnessed(self) -> bool:
        """What its handlers return is not yet the end of its messages; a plugin writes that down."""
        return bool(self.publishes or self.once_s or self.replies)

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
    burst: int = 1
    """So many at a time."""
    keys: int = 0
    """So many keys, in turn; 0: each message has its own."""
    max_retries: int = 3
    pull_batch: int = 8
    sync_s: float = 0.002
    """How long a sync of a broker's disk may take."""
    drain: str = "5s"
    """How long a leaving application waits for its handlers; shorter than some of them take."""
    is_named: bool = False
    """Applications have the names of their machines, from start to start."""
    is_heard: bool = False
    """A plugin listens to what happens beside deliveries (`ways/listening.py`)."""
    deals: int = 0
    """So many transactions are begun (`ways/desks.py`)."""
    asks: int = 0
    """So many requests are asked."""
    app: dict[str, Any] = field(default_factory=dict)
    """Settings of the applications."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Laid over each group's settings."""
    ways: tuple[str, ...] = ()
    """Which ways of `plans/ways.py` this run was given."""
    small: SmallLimits = field(default_factory=SmallLimits)
    """Limits that are smaller than usual."""
    rare: RareMarks = field(default_factory=RareMarks)
    """Marks of the code that are awake."""

    @property
    def topics(self) -> tuple[str, ...]:
        return (self.topic, self.second_topic) if self.second_topic else (self.topic,)
