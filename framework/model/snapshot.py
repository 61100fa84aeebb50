"""Snapshot: the frozen picture of a running application. Commands, metrics and checks read this and only this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from framework.model.queue import MessageQueue
from framework.model.subscription import Subscription


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """One owned queue."""

    queue: str
    state: str
    reason: str | None
    """Why it waits or fails; None while it flows."""
    committable: int
    next_offset: int
    max_offset: int
    messages: int
    bytes: int
    running: int
    place: MessageQueue
    offset_min: int = -1
    """Of the messages that are held here; -1 where there are none."""
    offset_max: int = -1
    pulled_ms: int = 0
    """When it was last pulled, Unix time."""
    handled_ms: int = 0
    """When a worker last left its messages."""
    is_retiring: bool = False
    is_locked: bool = False
    """Whether its lease is held; only orderly groups have one."""
    locked_ms: int = 0


@dataclass(frozen=True, slots=True)
class Pace:
    """How quickly one topic of a group goes: times in milliseconds, rates over the last minute."""

    pull_ms: float = 0.0
    """A pull that brought something."""
    pulled_a_second: float = 0.0
    handle_ms: float = 0.0
    """A message: the time that workers spent in a chunk, divided by its messages."""
    handled_a_second: float = 0.0
    failed_a_second: float = 0.0
    failed_in_an_hour: int = 0


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """One consumer group of this process."""

    group: str
    topics: tuple[str, ...]
    queues: tuple[QueueSnapshot, ...]
    handled: int
    retried: int
    dead_lettered: int
    dropped: int
    late: int
    is_balanced: bool
    subscriptions: tuple[Subscription, ...] = ()
    """Those of its retry topic included."""
    paces: Mapping[str, Pace] = field(default_factory=dict)
    """One a topic that it ever owned a queue of."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """As they were read, for people; never a secret."""
    consume_from: str = ""
    """RocketMQ's name for where a new group begins."""
    is_orderly: bool = False
    abandoned: int = 0
    """Messages whose handlers still ran when the drain limit was over."""
    unconfirmed: int = 0
    """Messages that were handled and come again: at the stop no broker confirmed an offset above them."""
    cannot_send_back: int = 0
    """Failed messages of which no broker keeps a copy yet, though each way was tried; their queues say why."""
    is_broadcasting: bool = False
    skipped: int = 0
    """Offsets that were settled unhandled, by `skip_older_than` or `skip_backlog_over`."""
    damaged: int = 0
    """Records that were left behind because they stayed damaged, by `damaged: skip`."""
    repeats: int = 0
    """Messages among `dropped` that `once` had handled already."""
    once_failures: int = 0
    """How often its store, or the function that names the key, failed: those messages were handled."""
    failed: int = 0
    """Ends that were no success by the handler's answer, by an exception, for want of an answer (`explicit_ack`), and
    for taking too long."""
    raised: int = 0
    nothing: int = 0
    timed_out: int = 0
    awaited: int = 0
    """Queues that were begun after their old owner was waited for."""
    absent: Mapping[str, int] = field(default_factory=dict)
    """Members that are not listed and keep their seat -> for how many more milliseconds."""
    flaps: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Processes that flap -> how often, and how long ago (ms) they came and went."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """What the engines of its handlers count, as in `EngineSnapshot`; nothing where it has none."""


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """A group that a plugin's engine consumes by itself."""

    group: str
    topic: str
    engine: str
    facts: Mapping[str, str]
    """What the engine says of it; `state` among them."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """What it counts, for metrics: what only grows ends in `_total`, all else is as it was last."""
    lag: Mapping[str, int] = field(default_factory=dict)
    """Queue -> messages of it that it had not read at the last call."""


@dataclass(frozen=True, slots=True)
class ClockSnapshot:
    """How far this machine's wall clock is ahead of the brokers', at least and at most; behind where it is below 0."""

    low_ms: int = 0
    high_ms: int = 0
    brokers: tuple[str, ...] = ()
    """Those that were compared; none: nothing is known."""

    @property
    def off_ms(self) -> int:
        """How far it is off at least; 0 where it may be right."""
        return max(self.low_ms, -self.high_ms, 0)


@dataclass(frozen=True, slots=True)
class LoopSnapshot:
    """Loops of one name that failed by a mistake of the program's or a plugin's, and were started again."""

    name: str
    failures: int
    reason: str
    """Of the last one."""
    stands_back: bool
    """It waits now until it is tried again; the application is not ready meanwhile."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole process."""

    name: str
    member: str
    is_ready: bool
    """Every group has joined and is balanced, and brokers take back what fails."""
    groups: tuple[GroupSnapshot, ...]
    budget_used: int
    budget_limit: int
    name_servers: tuple[str, ...] = ()
    started_ms: int = 0
    """When it began to run, Unix time; 0 before."""
    dormant: tuple[str, ...] = ()
    """Groups that `autostart: false` keeps back, until `start_consumer`."""
    hook_failures: Mapping[str, int] = field(default_factory=dict)
    """Plugin -> how often one of its hooks raised, or answered what it must not."""
    slow_hooks: Mapping[str, int] = field(default_factory=dict)
    """Plugin -> how often one of its hooks took longer than a tenth of a second."""
    engines: tuple[EngineSnapshot, ...] = ()
    """Groups that are consumed by engines of plugins, and not by us."""
    clock: ClockSnapshot = ClockSnapshot()
    """What is dated here is put right by as much."""
    held_back: Mapping[str, int] = field(default_factory=dict)
    """Groups that are not joined yet, since this member came and went too often -> for how long (ms) they are not."""
    host: str = ""
    lost_lines: int = 0
    """Of log and events of the whole process, which could not be written."""
    session: str = ""
    """Of this run of the process; no other run has the same."""
    failed_loops: tuple[LoopSnapshot, ...] = ()
    """Empty where all went well, always."""
