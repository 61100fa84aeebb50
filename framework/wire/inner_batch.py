"""A batch that the broker stored as one record (batch consume queues), taken apart by its consumer.

The messages share their record's broker fields, and have flag, body and properties of their own; the i-th one's
offset is the record's plus i. What cannot be taken apart was made so by a producer, so it must not stop the queue: it
stays one message, whose body says why when it is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.errors import BodyUnavailable, BodyUndecodable, ProtocolError
from framework.model.queue import MessageQueue
from framework.wire import batch, compression

if TYPE_CHECKING:
    from framework.wire.stored import Records


class InnerRecords:
    """The source behind the messages of one inner batch. `at` is a message's place in the opened batch."""

    __slots__ = ("_at", "_data", "outer", "places", "queue", "unsurrounded")

    def __init__(self, outer: Records, at: int, data: bytes, places: list[int]) -> None:
        self.outer, self._at, self._data = outer, at, data
        self.places = places
        self.queue: MessageQueue = outer.queue
        self.unsurrounded = 0

    def body(self, at: int) -> bytes:
        return batch.body_at(self._data, at)

    def properties(self, at: int) -> dict[str, str]:
        return batch.properties_at(self._data, at)

    def lacks(self, name: str) -> bool:
        return False

    def flag(self, at: int) -> int:
        return batch.flag_at(self._data, at)

    def topic(self, at: int) -> str:
        return self.outer.topic(self._at)

    def reconsume_times(self, at: int) -> int:
        return self.outer.reconsume_times(self._at)

    def born_ms(self, at: int) -> int:
        return self.outer.born_ms(self._at)

    def stored_ms(self, at: int) -> int:
        return self.outer.stored_ms(self._at)

    def commit_log_offset(self, at: int) -> int:
        return self.outer.commit_log_offset(self._at)

    def offset_message_id(self, at: int) -> str:
        return self.outer.offset_message_id(self._at)

    def raw(self, at: int) -> bytes:
        """The record that holds the whole batch."""
        return self.outer.raw(self._at)

    def __repr__(self) -> str:
        return f"<InnerRecords {self.queue} {len(self.places)} messages of {self.outer!r}>"


def take_apart(outer: Records, at: int) -> InnerRecords | None:
    """The batch in the record at `at`, or None where it cannot be taken apart. A wrong checksum is RecordDamaged."""
    body, sys_flag = outer.stored_body(at)
    try:
        data = compression.decompress(body, sys_flag)
        return InnerRecords(outer, at, data, places_of(data))
    except (BodyUndecodable, BodyUnavailable):
        return None


def places_of(data: bytes) -> list[int]:
    """Where the messages of an opened batch lie; BodyUndecodable where they do not."""
    try:
        places = batch.positions(data)
    except ProtocolError as error:
        raise BodyUndecodable(f"inner batch cannot be taken apart: {error.reason}") from error
    if not places:
        raise BodyUndecodable("inner batch holds no message")
    return places
