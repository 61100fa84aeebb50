"""Facts: what an observer beside every process could know of a run. Each is one thing that happened at one instant.

Which sends were acknowledged, what handlers saw, what was committed to brokers. No code under test reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from framework.model.queue import MessageQueue

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
    since: float | None = None
    """When it began with it, where that is known."""

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
    is_on_a_pull: bool = False
    """Whether it rode on a pull, which has a connection of its own."""


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
class Pictured(Fact):
    """What a process's snapshot says of one of its groups, while nothing is owed."""

    group: str
    counts: Mapping[str, int]
    """What became of messages, by event."""
    owed: Mapping[str, int]
    """What is under way."""
    committable: Mapping[str, int]
    """Of each queue that it has."""
    moved: int
    """Queues that it gained, less those that it lost."""
    not_ready: tuple[str, ...]


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
