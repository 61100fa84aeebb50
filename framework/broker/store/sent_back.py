"""Send-backs already done, on disk, so that one asked twice makes one copy.

A group that goes back to a message may fail it again, and that is no repetition: taken for one, its retry would be
lost. So a commit that falls marks whatever it leaves to be handled once more. But one that falls may also be a former
owner's, late, and the message's copy still to come: as long as it waits, nothing is lost by making no other.

Each row has a check, since one in which a bit has flipped may speak of another message: it is not believed, for a copy
too many costs less than a lost retry.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

import structlog

from framework.broker.store.queues import OFFSET_BITS
from framework.broker.store.seals import seal

log = structlog.get_logger()


class Key(NamedTuple):
    """One attempt at one message, of one group."""

    broker: str
    group: str
    origin: str
    reconsumed: int


class GroupPlace(NamedTuple):
    """A group's place in a queue."""

    group: str
    topic: str
    number: int


def is_repeated(connection: sqlite3.Connection, key: Key, now_ms: int) -> bool:
    """Whether the copy was made already, and none is owed since."""
    row = connection.execute(
        "SELECT is_rewound, due_ms, done_ms, message, seal FROM sent_back"
        " WHERE broker = ? AND consumer_group = ? AND origin = ? AND reconsumed = ?",
        key,
    ).fetchone()
    if row is None:
        return False
    is_rewound, due_ms, done_ms, message, written = row
    expected = seal((*key, done_ms, message, due_ms))
    if written is not None and written != (~expected if is_rewound else expected):
        log.error("send-back mark damaged", group=key.group, origin=key.origin, reason="another copy is made")
        return False
    return not is_rewound or due_ms > now_ms


def note(connection: sqlite3.Connection, key: Key, message: int, *, now_ms: int, due_ms: int | None) -> None:
    """The copy of the message with this id is made; when it comes, where that is not at once."""
    row = (*key, now_ms, message, due_ms or 0)
    connection.execute(
        "INSERT OR REPLACE INTO sent_back"
        " (broker, consumer_group, origin, reconsumed, done_ms, message, due_ms, is_rewound, seal)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?)",
        (*row, seal(row)),
    )


def forget_older(connection: sqlite3.Connection, done_ms: int) -> None:
    connection.execute("DELETE FROM sent_back WHERE done_ms < ?", (done_ms,))


def forget(connection: sqlite3.Connection, broker: str, group: str) -> None:
    """A group begins anew: a message that it meets again may be sent back again."""
    connection.execute("DELETE FROM sent_back WHERE broker = ? AND consumer_group = ?", (broker, group))


class Rewinds:
    """Commits that fell, on their way to the marks of what they left. Written along with the offsets themselves."""

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._fallen: dict[GroupPlace, tuple[int, int]] = {}
        self._in_flight: dict[GroupPlace, tuple[int, int]] = {}

    def note(self, place: GroupPlace, before: int, offset: int) -> None:
        """A group's offset went from `before` back to `offset`."""
        self._add(place, offset, before)

    @property
    def is_dirty(self) -> bool:
        return bool(self._fallen)

    def save(self, connection: sqlite3.Connection) -> None:
        if not self._fallen:
            return
        self._in_flight, self._fallen = self._fallen, {}
        for (group, topic, number), (low, end) in self._in_flight.items():
            queue = connection.execute(
                "SELECT id FROM queues WHERE broker = ? AND topic = ? AND number = ?", (self._broker, topic, number)
            ).fetchone()
            if queue is not None:
                base = queue[0] << OFFSET_BITS
                connection.execute(
                    "UPDATE sent_back SET is_rewound = 1, seal = ~seal"
                    " WHERE broker = ? AND consumer_group = ? AND message >= ? AND message < ? AND NOT is_rewound",
                    (self._broker, group, base + low, base + end),
                )

    def saved(self, *, committed: bool) -> None:
        if not committed:
            for place, (low, end) in self._in_flight.items():
                self._add(place, low, end)
        self._in_flight = {}

    def _add(self, place: GroupPlace, low: int, end: int) -> None:
        known = self._fallen.get(place)
        self._fallen[place] = (low, end) if known is None else (min(low, known[0]), max(end, known[1]))
