"""Rare marks: what each `marks.rarely` and `marks.stretched` of the code does, and which of them a run makes common.

Most are asleep in a run, so that rare things come up by themselves and not only all together: FoundationDB's BUGGIFY.
Each draws from a stream of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from framework.testing.sim.streams import Stream

RUNS = 0.6
SHARE, SELDOM_SHARE = 0.2, 0.5
CHANCES, SELDOM_CHANCES = (0.05, 0.3, 1.0), (0.3, 1.0)
SECONDS = (0.01, 0.1, 1.0, 6.0)
CALM_SECONDS = 0.05
"""A calm run keeps promises of seconds."""

STRETCHED: dict[str, str] = {
    # A queue comes
    "queues are known": "a division by queues that have changed since",
    "member lists are known": "a division by members that have come or gone since",
    "a stored offset is known": "a commit of the previous owner behind it, a reset",
    "a queue is about to begin": "another member's take of the queue, a reset",
    "a member that joins knows the others": "one that came or left since",
    "a lock is asked for": "a lease that is over before its answer",
    "a lock is answered": "a release, a lost connection, the end of the lease",
    "a heartbeat is due": "a broker that forgets the member",
    # A queue goes
    "a queue that is left is confirmed": "the new owner's take before the last record",
    "a queue that is left is recorded": "a lock that is held on",
    "a lock is given back": "the new owner's question, the lock's own end",
    "a group is left": "a division that still counts the member",
    # Offsets and records
    "an offset is confirmed": "a reset, and what ended since",
    "an offset is moved": "commits of what was handled before a reset",
    "a one-way commit has its connection": "a release, and the next owner's commits",
    "ranges are to be written": "a reset, a release",
    "a store of progress is asked": "another member's take",
    "a store of progress has answered": "a take that is cancelled and counts all the same",
    "a file of offsets is to be written": "a crash",
    "a file of offsets is written": "a crash, and offsets that were noted since",
    # Copies of failed messages
    "a message is sent back": "the loss of its queue, the drain limit",
    "a copy takes the other road": "the loss of its queue, the drain limit",
    "a copy is durable": "a crash: the copy and the message both are there",
    "a dead letter is durable": "the end of its lease",
    "an expiry is decided": "a stop",
    # Connections
    "a route is answered": "a route that has changed since",
    "a connection is made": "its end",
}
"""Moments that last -> what they meet."""
RARELY: dict[str, str] = {
    "a flush fails": "the last offset of a queue is not confirmed",
    "a store of progress fails": "a record is not read, or not written",
    "a send-back fails": "the copy takes the other road, or waits",
    "a dead letter fails": "its line waits, and the lease may end meanwhile",
    "an unlock fails": "the lock runs out by itself",
    "a notice is lost": "who came or left is found by asking, or by the next round",
    "a stored offset is not answered": "the queue is begun later, and nowhere else",
    "a one-way commit is lost": "the offset is told again, or confirmed when its queue is left",
    "a lock is not answered": "the lease is asked for again, or ends",
    "a file of offsets is not written": "offsets wait for the next save",
    "commits of a lot are not told": "they are looked for, and told again",
}
"""Rare ways -> what comes of them."""
OUTBOX: dict[str, str] = {
    "rows of the outbox are claimed": "the end of the claim, another relay's",
    "a row of the outbox is due": "the end of its time, of the claim",
    "a row of the outbox is stored": "the end of its time: it is sent again",
    "rows of the outbox are to be noted": "the end of the claim",
    "rows of the outbox are not noted": "what was sent is sent again",
}
"""The relay's, which has a simulation of its own: `plugins/outbox/tests/test_outbox_rarely.py`."""
SELDOM = frozenset(
    {
        "an offset is moved", "an expiry is decided", "a stored offset is not answered",
        "a lock is given back", "an unlock fails", "ranges are to be written",
        "a dead letter is durable", "a dead letter fails", "a copy takes the other road",
        "a group is left", "a flush fails", "a store of progress is asked", "a member that joins knows the others",
        "a file of offsets is to be written", "a file of offsets is written", "a file of offsets is not written",
        "commits of a lot are not told",
    }
)  # fmt: skip
"""Those that few runs pass by: they are awake more often."""
SHORT_S: dict[str, float] = {
    "an expiry is decided": 0.05,
    "member lists are known": 1.0,
    "a member that joins knows the others": 1.0,
}
"""Moments that may last no longer: the next handler's time is over meanwhile; a truth goes by who has been heard of for
three seconds.
"""

OFTEN_MAX: dict[str, float] = {
    "a send-back fails": 0.3,
    "a dead letter fails": 0.3,
    "a stored offset is not answered": 0.3,
}
"""Failures after each of which the next attempt waits twice as long: one that always failed until the run is healed
would be tried again minutes after.
"""


@dataclass(frozen=True, slots=True)
class Active:
    """A mark that is awake in a run."""

    name: str
    chance: float
    seconds: float
    """How long a moment lasts at most; of no meaning where there is none."""


@dataclass(frozen=True, slots=True)
class RareMarks:
    """A run's."""

    active: tuple[Active, ...] = ()

    def without(self, name: str) -> RareMarks:
        return RareMarks(tuple(each for each in self.active if each.name != name))

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.active]

    def __str__(self) -> str:
        return ",".join(f"{each.name.replace(' ', '-')}@{each.chance:g}x{each.seconds:g}s" for each in self.active) or (
            "none"
        )


def draw_marks(chance: Callable[[str], Stream], *, is_calm: bool) -> RareMarks:
    """`chance` answers each mark's own stream, by its name."""
    if not chance("marks").happens(RUNS):
        return RareMarks()
    active = []
    for name in (*STRETCHED, *RARELY):
        own = chance(f"mark/{name}")
        share, chances = (SELDOM_SHARE, SELDOM_CHANCES) if name in SELDOM else (SHARE, CHANCES)
        is_awake, often, seconds = own.happens(share), own.pick(chances), own.pick(SECONDS)
        often = min(often, OFTEN_MAX.get(name, often))
        if is_awake and not (is_calm and name in RARELY):
            active.append(
                Active(name, often, min(seconds, SHORT_S.get(name, seconds), CALM_SECONDS if is_calm else seconds))
            )
    return RareMarks(tuple(active))
