"""Columns: pulled bytes as lists, one a field, without an object a message.

A plain loop over the stored layout (`wire/stored.py` draws it): on 100-byte messages it was faster than numpy. It takes
the common record: IPv4 hosts, a body as it was given, a topic of up to 127 bytes. Whatever else there is goes through
`wire.stored.decode`, which also names what is wrong with a damaged one. Topic, broker and queue are the same for all
rows, so they are said once, in `queue`. It knows no connection and no filter but tags.
"""

from __future__ import annotations

import struct
from struct import Struct
from zlib import crc32

from framework.errors import BodyUndecodable, ProtocolError, RecordDamaged
from framework.model.message import UNIQUE_KEY, Message
from framework.model.queue import MessageQueue
from framework.wire import compression, stored
from framework.wire.properties import NAME_END, PAIR_END

# size, magic, checksum, queue offset, sysFlag, born, stored, reconsume times, body length of an IPv4 record.
_RECORD = Struct(">iii8xq8xiq8xq8xi8xi")
MAGIC = stored.MAGIC_V1  # of a record whose topic has up to 127 bytes
BODY_AT = 88
SIZE_MIN = BODY_AT + 3
UNCOMMON = stored.BORN_HOST_V6 | stored.STORE_HOST_V6 | stored.INNER_BATCH | compression.COMPRESSED
_UNIQUE_KEY = f"{UNIQUE_KEY}{NAME_END}".encode()


class Columns:
    """Rows of one queue, in the order of their offsets. All lists are equally long."""

    __slots__ = (
        "bodies", "born_ms", "offset_ids", "offsets", "properties", "queue", "reconsume_times", "size", "stored_ms",
    )  # fmt: skip

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.offsets: list[int] = []
        self.bodies: list[bytes | None] = []
        """None where bodies were not asked for, or where one could not be opened and that was allowed."""
        self.properties: list[bytes] = []
        r"""As they are stored: `name \x01 value \x02`, repeated; the last \x02 may be missing."""
        self.born_ms: list[int] = []
        self.stored_ms: list[int] = []
        self.reconsume_times: list[int] = []
        self.offset_ids: dict[int, str] = {}
        """Row -> offset message id, for the rare message that its producer gave no unique key."""
        self.size = 0
        """Bytes that the rows were decoded from."""

    def __len__(self) -> int:
        return len(self.offsets)

    def add(
        self,
        data: bytes,
        end: int,
        *,
        offset_delta: int = 0,
        with_bodies: bool = True,
        tags: frozenset[str] = frozenset(),
        fail_on_loss: bool = True,
    ) -> None:
        """Decode a pull's answer, as far as offsets below `end`. RecordDamaged leaves rows that must not be used."""
        records = stored.Records(data, self.queue)
        unpack = _RECORD.unpack_from
        offsets, bodies, properties = self.offsets.append, self.bodies.append, self.properties.append
        born, stored_at, reconsumed = self.born_ms.append, self.stored_ms.append, self.reconsume_times.append
        at, stop = 0, len(data)
        self.size += stop
        try:
            while at < stop:
                size, magic, checksum, offset, flag, born_ms, stored_ms, times, body_size = unpack(data, at)
                following = at + size
                body_at = at + BODY_AT
                body_end = body_at + body_size
                if (
                    flag & UNCOMMON
                    or magic != MAGIC
                    or following > stop
                    or body_size < 0
                    or size < SIZE_MIN + body_size
                ):
                    at = self._uncommon(data, at, end, offset_delta, with_bodies, tags, fail_on_loss)
                    continue
                offset += offset_delta
                texts_at = body_end + data[body_end] + 3
                texts_end = texts_at + (data[texts_at - 2] << 8 | data[texts_at - 1]) if texts_at <= following else stop
                if texts_at > following or texts_end > following:
                    records.properties(at)  # says what is wrong
                    raise AssertionError("refused a record that is sound")
                texts = data[texts_at:texts_end]
                at, this = following, at
                if offset >= end or (tags and records.tag(this) not in tags):
                    continue
                if with_bodies:
                    body = data[body_at:body_end]
                    if crc32(body) & 0x7FFF_FFFF != checksum:
                        records.stored_body(this)
                        raise AssertionError("refused a body that is sound")
                    bodies(body)
                else:
                    bodies(None)
                if _UNIQUE_KEY not in texts:
                    self.offset_ids[len(self.offsets)] = records.offset_message_id(this)
                offsets(offset)
                properties(texts)
                born(born_ms)
                stored_at(stored_ms)
                reconsumed(times)
        except struct.error as error:
            raise RecordDamaged(f"{self.queue}: record at byte {at}: {stop - at} bytes are too few") from error

    def _uncommon(
        self, data: bytes, at: int, end: int, delta: int, with_bodies: bool, tags: frozenset[str], fail_on_loss: bool
    ) -> int:
        """A record by the general way; answers where the next one begins."""
        (size,) = struct.unpack_from(">i", data, at)
        one = data[at : at + size] if size > 0 else data[at:]
        for message in stored.decode(one, self.queue, offset_delta=delta):
            if message.queue_offset < end and (not tags or message.tags in tags):
                self._append(message, with_bodies, fail_on_loss)
        return at + int(size)

    def _append(self, message: Message, with_bodies: bool, fail_on_loss: bool) -> None:
        body: bytes | None = None
        if with_bodies:
            try:
                body = message.body
            except BodyUndecodable as error:
                if fail_on_loss:
                    raise ProtocolError(f"{self.queue} at offset {message.queue_offset}: {error}") from error
        texts = message.properties
        if UNIQUE_KEY not in texts:
            self.offset_ids[len(self.offsets)] = message.offset_message_id
        self.bodies.append(body)
        self.offsets.append(message.queue_offset)
        pairs = [f"{name}{NAME_END}{value}{PAIR_END}" for name, value in texts.items()]
        self.properties.append("".join(pairs).encode())
        self.born_ms.append(message.born_ms)
        self.stored_ms.append(message.stored_ms)
        self.reconsume_times.append(message.attempt - 1)

    def gap(self, begin: int, end: int, since: int = 0) -> tuple[int, int] | None:
        """The first run of offsets in [begin, end) that has no row, looking at the rows from `since` on."""
        expected = begin
        for offset in self.offsets[since:]:
            if offset > expected:
                break
            expected = offset + 1
        else:
            offset = end
        return (expected, min(offset, end)) if expected < end else None

    def __repr__(self) -> str:
        return f"<Columns {self.queue} {len(self.offsets)} rows>"


def offset_message_id(data: bytes, at: int, queue: MessageQueue) -> str:
    """Of the record at this place: what names a message that its producer gave no unique key."""
    return stored.Records(data, queue).offset_message_id(at)
