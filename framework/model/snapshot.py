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
    lag: int | None = None
    """Messages that are stored and not done; None where the queue's end is not known."""
    is_lag_least: bool = False
    """It is at least that: nothing is pulled now, so that the queue's end may be further on."""
    behind_ms: int | None = None
    """How long ago the oldest message that is not done was stored; None where that message was not pulled yet."""


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
    success_ago_ms: int | None = None
    """How long ago the last message was handled; None where none was since the start."""


@dataclass(frozen=True, slots=True)
class PauseSnapshot:
    """Why a group is paused: by a call or a command, and not by its settings."""

    at_ms: int
    """When it was paused, Unix time."""
    by: str = ""
    """Who paused it: `user@host` of a command; empty where the application did."""
    reason: str = ""
    until_ms: int | None = None
    """When it resumes by itself, Unix time; None: when somebody resumes it."""


@dataclass(frozen=True, slots=True)
class BreakerSnapshot:
    """A topic of a group whose handlers fail all: `consumers.GROUP.breaker` messages and more, and none succeeded."""

    topic: str
    failures: int
    """Messages that have failed since the last success."""
    reason: str
    """The commonest failure, and how many were of its kind."""
    next_ms: int | None = None
    """How long until the next message is tried; None while one is."""


@dataclass(frozen=True, slots=True)
class ExampleSnapshot:
    """One of those that a class of times counts."""

    trace_id: str
    """Empty where its sender named none."""
    message_id: str
    seconds: float
    at_ms: int


@dataclass(frozen=True, slots=True)
class HistogramSnapshot:
    """How long something took, so far."""

    bounds: tuple[float, ...]
    """Seconds; each class has those up to its bound, and the last one the rest."""
    counts: tuple[int, ...]
    """Of each class alone."""
    total: float
    """Seconds, all together."""
    examples: tuple[ExampleSnapshot | None, ...]


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
    present: tuple[str, ...] = ()
    """Members that were listed at the last look and would keep their seat."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Topics of which there is nothing to read until somebody does something -> what is wrong, and the way out."""
    flaps: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Processes that flap -> how often, and how long ago (ms) they came and went."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """What the engines of its handlers count, as in `EngineSnapshot`; nothing where it has none."""
    own_name: str = ""
    """As the application names it: without the namespace."""
    concurrency: int = 0
    """Handlers that may run at once, by now."""
    is_paused: bool = False
    pause: PauseSnapshot | None = None
    """Who paused it, why and until when; None where it is not paused, or its settings say so."""
    breakers: tuple[BreakerSnapshot, ...] = ()
    """Topics of which one message at a time is tried, since their handlers fail; empty where all is well."""
    running: int = 0
    """Handlers that run."""
    oldest_ms: int | None = None
    """For how long the oldest of them has run; None where none runs."""
    hanging: int = 0
    """Workers that are missing because handlers that were given up do not end."""
    retries_waiting: int = 0
    """Failed messages that wait in this process: for a broker to store their copy, or for their next try in place. What
    waits at a broker for its delay to be over is not counted anywhere."""
    lag: int | None = None
    """Of all its queues here; None where no queue's is known."""
    is_lag_least: bool = False
    """It is at least that: of some queues it is not known, or not known as of now."""
    behind_ms: int | None = None
    """Of the queue that is furthest behind, as far as known; None where that would be 0 and some do not know."""
    rebalances: int = 0
    """How often its queues here became others, and how many came and went by that."""
    queues_gained: int = 0
    queues_lost: int = 0
    times: Mapping[str, HistogramSnapshot] = field(default_factory=dict)
    """How long handlers took, by topic; nothing where `observe.listen` is not set."""
    pulls: Mapping[str, HistogramSnapshot] = field(default_factory=dict)
    """The same of pulls that brought something."""


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
    counts: Mapping[str, int] = field(default_factory=dict)
    """What became of messages: `handled`, `retried`, `dead_lettered`."""
    own_name: str = ""
    """As the application names the group: without the namespace."""


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
class StallSnapshot:
    """How the event loop turns. It blocks where a handler computes, or waits, without suspending."""

    count: int = 0
    """How often it was blocked for longer than a second, so far."""
    longest_ms: int = 0
    blocked_ms: int = 0
    """For how long it is blocked now, as another thread sees it; 0 while it turns."""
    late_ms: int = 0
    """How late its last beat was, of those that it has four times a second."""
    place: str = ""
    """Where it was blocked last: files, lines and functions, the innermost first."""


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
    plugin_figures: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Plugin -> what it counts, as in `EngineSnapshot.figures`."""
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
    not_ready: tuple[str, ...] = ()
    """Why it is not ready; empty where it is."""
    not_live: tuple[str, ...] = ()
    """What only a restart mends; empty where it lives."""
    phase: str = ""
    """new, starting, running, stopping, stopped."""
    taken_ms: int = 0
    """When this picture was taken, Unix time."""
    up_ms: int = 0
    """How long it had run by then, on a clock that never steps: rates are differences of counts, divided by this."""
    namespace: str = ""
    """That names of topics and groups have, but for `own_name`."""
    process: int = 0
    worker: int = 0
    """Its number among the processes of one parent."""
    stalls: StallSnapshot = StallSnapshot()
    sends: HistogramSnapshot | None = None
    """How long sends took; None where `observe.listen` is not set."""
    sent: Mapping[str, int] = field(default_factory=dict)
    """Messages whose send has ended, by the kind of error; "" are those that were stored, or sent one way."""
    replies: Mapping[str, int] = field(default_factory=dict)
    """`sent` and `dropped` by its handlers; `late` are those that came when its own requests waited no more."""
