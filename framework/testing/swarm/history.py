"""History: what happened in a run, as facts in the order of time. Others record it; checkers and timelines read it.

Facts are what an observer beside every process could know: which sends were acknowledged, what handlers saw, what was
committed to brokers. No code under test reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from framework.model.queue import MessageQueue

F = TypeVar("F", bound="Fact")


BY_A_MEMBER = "a member"
"""Who made a copy, where no broker was asked to."""
OK, DROPPED, FAILED, BURIED, LEVEL = "ok", "dropped", "failed", "buried", "level "
"""What a handler's end means for its message: it is done; done unhandled; to be retried; a dead letter from now on; to
be retried after a delay of this level, whose number follows."""


@dataclass(frozen=True, slots=True)
class Fact:
    """`at` is the virtual second; `who` the life of a process, such as `app-1.2` for its third life."""

    at: float
    who: str


@dataclass(frozen=True, slots=True)
class Sent(Fact):
    """A producer was told that its message is stored."""

    message_id: str
    queue: MessageQueue
    offset: int


@dataclass(frozen=True, slots=True)
class Started(Fact):
    """A handler began with a message."""

    group: str
    message_id: str
    queue: MessageQueue
    offset: int
    attempt: int
    holder: str = ""
    """Orderly groups: the process that had the queue's lock at the broker just then; empty for none."""
    epoch: int | None = None
    """Of the acquisition, as the handler was told it."""
    is_half_open: bool = False
    """Where another has the lock: the broker that gave this process its own is gone, and nothing has told it so."""


@dataclass(frozen=True, slots=True)
class Finished(Fact):
    """A handler ended; `outcome` is `ok`, or what it answered or raised instead (see above)."""

    group: str
    message_id: str
    queue: MessageQueue
    offset: int
    attempt: int
    outcome: str

    @property
    def is_ok(self) -> bool:
        """Whether its message is done with that."""
        return self.outcome in {OK, DROPPED}

    @property
    def level(self) -> int:
        """Of the delay that its handler asked for; 0 where the retry's number decides."""
        return int(self.outcome.removeprefix(LEVEL)) if self.outcome.startswith(LEVEL) else 0


@dataclass(frozen=True, slots=True)
class ByHand(Fact):
    """A handler said of what it was given since it last did, up to this offset: it is done, or is taken back."""

    group: str
    queue: MessageQueue
    offset: int
    is_commit: bool


@dataclass(frozen=True, slots=True)
class Copied(Fact):
    """A broker has a copy of a message whose handling failed: for a retry, or among the dead letters."""

    group: str
    message_id: str


@dataclass(frozen=True, slots=True)
class Committed(Fact):
    """A broker was told that everything below `offset` is finished; `by` is the process that said so."""

    by: str
    group: str
    queue: MessageQueue
    offset: int
    epoch: int | None = None
    """Of the acquisition, where the group keeps its progress in the box."""
    is_refused: bool = False
    """Whether the box would not hear of it: another member has taken the queue since."""
    before: int | None = None
    """What was stored when it arrived; None for nothing."""


@dataclass(frozen=True, slots=True)
class Acquired(Fact):
    """A process begins with a queue, at an offset."""

    group: str
    queue: str
    offset: int
    is_moved: bool = False
    """It had the queue already, and its broker moved it."""
    stored: int | None = None
    """What the broker had stored then; None for nothing, and where it did not run."""
    end: int | None = None
    """Where the queue ended at its broker then; None where it did not run."""


@dataclass(frozen=True, slots=True)
class Asked(Fact):
    """A process that takes a queue is about to read what was kept of it."""

    group: str
    queue: str


@dataclass(frozen=True, slots=True)
class Kept(Fact):
    """A store has confirmed what had ended above a gap when `built` was the time."""

    group: str
    queue: str
    epoch: int
    low: int
    ranges: tuple[tuple[int, int], ...]
    built: float


@dataclass(frozen=True, slots=True)
class ThrownAway(Fact):
    """What was kept of a queue is not believed by its new owner."""

    group: str
    queue: str
    reason: str


@dataclass(frozen=True, slots=True)
class PassedOver(Fact):
    """Messages that a new owner does not start, since they had ended."""

    group: str
    queue: str
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Skipped(Fact):
    """A process settles these offsets without a handler, since its group does not want them any more."""

    group: str
    queue: str
    begin: int
    end: int
    queue_end: int | None = None
    """Where the queue ended at its broker then; None where it did not run."""


@dataclass(frozen=True, slots=True)
class Saved(Fact):
    """A broadcasting group's offsets are on its process's own disk: each is the next one to handle."""

    group: str
    offsets: dict[str, int]


@dataclass(frozen=True, slots=True)
class Subscribed(Fact):
    """A process was told that its group leaves a topic, or comes back to it."""

    group: str
    topic: str
    is_on: bool


@dataclass(frozen=True, slots=True)
class SentBack(Fact):
    """A broker was asked for a copy of a message whose handling failed."""

    group: str
    message_id: str


@dataclass(frozen=True, slots=True)
class CopyAsked(SentBack):
    """A process sent a request for a copy: a send-back, or the copy itself."""


@dataclass(frozen=True, slots=True)
class Swallowed(Fact):
    """A broker said yes to that, and kept nothing."""

    group: str
    message_id: str


@dataclass(frozen=True, slots=True)
class RoomAgain(Fact):
    """An administrator gave a group its retry queues back."""

    group: str


@dataclass(frozen=True, slots=True)
class Reassigned(Fact):
    """A process learns which queues are its own now and which no longer."""

    group: str
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    counted: int = 0
    """Among how many members it divides the topic's queues."""
    heard: frozenset[str] = frozenset()
    """The processes that live and that a broker of the topic lists just then."""


@dataclass(frozen=True, slots=True)
class Resized(Fact):
    """A process was told how many handlers of a group it may run at once from now on; 0: the group is paused."""

    group: str
    size: int


@dataclass(frozen=True, slots=True)
class Fault(Fact):
    """Something was done to `who`."""

    kind: str
    detail: str = ""
    group: str = ""
    """The only one that it was done to; empty where it was to all that run there."""


@dataclass(frozen=True, slots=True)
class Bent(Fact):
    """A rare mark of the code did what it does."""

    mark: str
    what: str


@dataclass(frozen=True, slots=True)
class Reset(Fact):
    """An administrator asked for a group to go on elsewhere; from here on it may meet again what it had finished."""

    group: str
    queue: MessageQueue
    offset: int


@dataclass(frozen=True, slots=True)
class Remade(Fact):
    """A topic was deleted, with all that it had; the next one of its name begins at 0."""

    topic: str


@dataclass(frozen=True, slots=True)
class Life(Fact):
    """A process began, left in order, or was gone."""

    event: str


@dataclass(frozen=True, slots=True)
class Said(Fact):
    """A line that a process logged."""

    level: str
    event: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Forgotten(Fact):
    """A broker that was started again lacks something that the one before had stored."""

    what: str


@dataclass(frozen=True, slots=True)
class Held(Fact):
    """How much a process holds in each of its tables (`Class.attribute`), while nothing is owed."""

    sizes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LeftBehind(Fact):
    """Tasks, timers and connections that still live in a process whose main function has ended."""

    what: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Strange(Fact):
    """Something on the wire that no request explains."""

    what: str


@dataclass(frozen=True, slots=True)
class Unexpected(Fact):
    """An error that nobody had foreseen: a loop or task that broke, a process that ended by itself."""

    what: str


@dataclass(frozen=True, slots=True)
class Ownership:
    """Whose a queue is."""

    who: tuple[str, ...]
    """Members that believe it to be theirs."""
    holder: str = ""
    """The process that has its lock at the broker; empty for none."""


@dataclass(slots=True)
class History:
    """Everything recorded in one run."""

    seed: int
    is_calm: bool = False
    """Nothing but joins and clean leaves happened."""
    facts: list[Fact] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    """The groups that consume what is sent."""
    topics: dict[str, set[str]] = field(default_factory=dict)
    """Group -> what it consumes, where that is not everything."""
    orderly: dict[str, int] = field(default_factory=dict)
    """Those of them that keep an order, and into how many keys a queue is divided: one where its own is kept."""
    batched: set[str] = field(default_factory=set)
    """Those whose handlers are given several messages at once."""
    by_hand: set[str] = field(default_factory=set)
    """Those whose handlers say when what they have handled is finished."""
    publishing: set[str] = field(default_factory=set)
    """Those whose handlers return what is to be sent."""
    once: dict[str, str] = field(default_factory=dict)
    """Those that drop duplicates -> how far their store reaches: `process`, `machine` or `all`."""
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    """(group, message id) -> what a store knows the message by."""
    uneven: set[str] = field(default_factory=set)
    """Those whose strategy promises no balance."""
    threaded: set[str] = field(default_factory=set)
    """Those whose handlers run on worker threads, which begin a little after they were asked to."""
    broadcasting: set[str] = field(default_factory=set)
    """Those of which each process is given everything."""
    skips: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Group -> older than how many seconds, and how far behind the end, it wants nothing; 0: no such rule."""
    allotted: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    """Group -> queue -> machines that may own it, where a strategy goes by names; nobody where there are none."""
    strict: set[str] = field(default_factory=set)
    """Those of these groups in which nobody else ever does."""
    limited: set[str] = field(default_factory=set)
    """Those whose handlers have a limit; what took too long comes back by the first delay, whichever try it was."""
    keeping: set[str] = field(default_factory=set)
    """The groups of which what has ended above a gap that lasts outlives its owner."""
    keeping_local: set[str] = field(default_factory=set)
    """Those whose members keep it on their own disks, for themselves alone."""
    announcing: set[str] = field(default_factory=set)
    """Those whose members say when they are done with a queue."""
    max_retries: int = 16
    delays_ms: tuple[int, ...] = ()
    """The brokers' ladder of delays."""
    limits: dict[str, float] = field(default_factory=dict)
    """Group -> for how many seconds its handlers may run, where that is shorter than a run."""
    places: dict[str, int] = field(default_factory=dict)
    """Group -> how many handlers a process runs at once."""
    grace_s: float = 0.0
    """For how long the seats of members are kept; 0 where they have no names."""
    is_protected: bool = False
    """Members that come and go too often wait before they join."""
    dead_letters: set[tuple[str, str]] = field(default_factory=set)
    """(group, message id) of what is among the dead letters at the end."""
    copies: list[tuple[str, str, int, str]] = field(default_factory=list)
    """(group, message copied, which retry it is, by which broker or BY_A_MEMBER) of every copy of a failed message."""
    copied_of: dict[str, str] = field(default_factory=dict)
    """Of each copy: the message that it names -> its message id."""
    stored: dict[MessageQueue, dict[int, str]] = field(default_factory=dict)
    """What the brokers have at the end: queue -> offset -> message id."""
    stored_at: dict[str, dict[int, float]] = field(default_factory=dict)
    """Queue -> offset -> at which second of the run it was stored, by the broker's own clock."""
    fired: list[tuple[str, str, int, float]] = field(default_factory=list)
    """(group, message, which retry it is, when it came to its retry topic) of copies that brokers made."""
    sync_s: float = 0.0
    """How long a sync of a broker's disk may take."""
    skipped: dict[tuple[str, str], int] = field(default_factory=dict)
    """(process, group) -> how many messages it says to have skipped, when everything had settled."""
    resets: set[str] = field(default_factory=set)
    """Groups whose offsets an administrator has reset: what they had settled may be settled again."""
    excused_until: float = 0.0
    """Until when messages may have gone with a topic that was deleted, or behind the offsets of its former life."""
    members: tuple[str, ...] = ()
    """Who was up when everything had healed and settled; empty where nobody looked."""
    owners: dict[tuple[str, str], Ownership] = field(default_factory=dict)
    """(group, queue) -> whose it was then."""
    is_drained: bool = False
    """The run went to its end, and everything was to be handled by then."""
    marks: dict[str, int] = field(default_factory=dict)
    """How often each mark was reached."""
    excuses: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(truth, reason) -> how often a checker let something pass; see `checkers/excuses.py`."""

    def of(self, kind: type[F]) -> Iterator[F]:
        """The facts of one kind, in order."""
        return (fact for fact in self.facts if type(fact) is kind)

    def reads(self, group: str, topic: str) -> bool:
        """Whether the group consumes this topic."""
        return topic in self.topics.get(group, (topic,))

    def is_nobodys(self, group: str, queue: str) -> bool:
        """Whether the group's strategy leaves this queue without an owner, whoever is there."""
        return self.allotted.get(group, {}).get(queue) == ()


def machine_of(who: str) -> str:
    """The machine that this life of a process is on."""
    return who.partition(".")[0]


def place_of(queue: str) -> MessageQueue:
    """The queue that is called so. A broker's name may have an `@` in it, before which stands its room."""
    topic, _, rest = queue.partition("@")
    name, _, number = rest.rpartition(":")
    return MessageQueue(topic, name, int(number))
