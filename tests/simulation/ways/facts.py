"""Facts of ways: what only handlers with `once` or `@publishes` do, beside the facts of every run (`history.py`)."""

from __future__ import annotations

from dataclasses import dataclass

from framework.model.queue import MessageQueue
from tests.simulation.facts import Fact, Finished, Started


@dataclass(frozen=True, slots=True)
class Repeated(Fact):
    """A message was not handled, since its group had handled it, or another one of its key, lately: it is done."""

    group: str
    message_id: str
    queue: MessageQueue
    offset: int


@dataclass(frozen=True, slots=True)
class Looked(Fact):
    """A store was asked for a key, and has it or has not; None where it gave no answer."""

    group: str
    key: str
    is_there: bool | None
    began: float
    """When it was asked."""


@dataclass(frozen=True, slots=True)
class Remembered(Fact):
    """A store has recorded a key for so long, and was asked at `began`; None as it is asked, 0 where it failed."""

    group: str
    key: str
    keep_s: float | None
    began: float


@dataclass(frozen=True, slots=True)
class Returned(Fact):
    """A handler returned something that is to be sent, which this token is in."""

    group: str
    queue: MessageQueue
    offset: int
    token: str


@dataclass(frozen=True, slots=True)
class Published(Fact):
    """A broker has acknowledged a message with this token in it."""

    token: str


@dataclass(frozen=True, slots=True)
class ToldGains(Fact):
    """A plugin was told which queues a member has got, and which it has lost."""

    group: str
    gained: tuple[str, ...]
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToldOffsets(Fact):
    """A plugin was told which offsets a member has committed."""

    group: str
    offsets: dict[str, int]


@dataclass(frozen=True, slots=True)
class ToldChunk(Fact):
    """A plugin was told how many messages of a queue a worker has just handled by plain success."""

    group: str
    queue: str
    handled: int


@dataclass(frozen=True, slots=True)
class Decided(Fact):
    """A local transaction has ended so, for good."""

    deal: str
    state: str


@dataclass(frozen=True, slots=True)
class Promised(Fact):
    """A request is asked, whose time is over at `until`."""

    ask: str
    until: float


@dataclass(frozen=True, slots=True)
class Replied(Fact):
    """A handler returned this reply to a request."""

    ask: str
    reply: str


@dataclass(frozen=True, slots=True)
class Answered(Fact):
    """Whoever asked was given this reply."""

    ask: str
    reply: str


@dataclass(frozen=True, slots=True)
class Gone(Fact):
    """Whoever asked was told that there is no reply."""

    ask: str


@dataclass(frozen=True, slots=True)
class TookReply(Fact):
    """A process told the broker that it has taken a reply."""


@dataclass(frozen=True, slots=True)
class LateReplies(Fact):
    """So many replies a process counts as late, at the end."""

    count: int


@dataclass(frozen=True, slots=True)
class LotDecided(Fact):
    """A decision about a lot leaves for its broker."""

    lot: int


@dataclass(frozen=True, slots=True)
class LotSettled(Fact):
    """A process was told that a lot of so many messages is settled."""

    lot: int
    rows: int


@dataclass(frozen=True, slots=True)
class PopStarted(Started):
    """A handler of a group that pops began with a message."""


@dataclass(frozen=True, slots=True)
class PopFinished(Finished):
    """A handler of a group that pops has ended."""


@dataclass(frozen=True, slots=True)
class Receipted(Fact):
    """Something about one receipt, which is the time of a pop or of a renewal: `place` is where its message lies."""

    group: str
    place: tuple[MessageQueue, int]
    receipt: int


@dataclass(frozen=True, slots=True)
class Handed(Receipted):
    """A broker's answer to a pop of `who` has this message, for it alone until then."""

    message_id: str
    attempt: int
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class TimeAsked(Receipted):
    """A process asks for a message to stay invisible for so many seconds from now on."""

    seconds: float


@dataclass(frozen=True, slots=True)
class TimeChanged(Receipted):
    """A broker's answer to that: the receipt that counts now, and until when."""

    renewed: int
    until: float


@dataclass(frozen=True, slots=True)
class AckAsked(Receipted):
    """A process says that it is done with a message."""


@dataclass(frozen=True, slots=True)
class Acked(Receipted):
    """A broker has taken that."""
