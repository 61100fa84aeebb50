"""Columns: pulled bytes as lists, one a field, without an object a message.

A plain loop over the stored layout (`wire/stored.py` draws it): on 100-byte messages it was faster than numpy. It takes
the common record: IPv4 hosts, a body as it was given, a topic of up to 127 bytes. Whatever else there is goes through
`wire.stored.decode`, which also names what is wrong with a damaged one. Topic, broker and queue are the same for all
rows, so they are said once, in `queue`. It knows no connection and no filter but tags.
"""

from __future__ import annotations

import struct
from itertools import islice
from operator import lt
from struct import Struct
from typing import NamedTuple

from framework.errors import BodyUndecodable, ProtocolError, RecordDamaged
from framework.model.message import UNIQUE_KEY, Message
from framework.model.queue import MessageQueue
from framework.wire import compression, stored
from framework.wire.properties import NAME_END, PAIR_END
from framework.wire.record import crc32 as crc32  # noqa: PLC0414  # for columns of an engine, too

# size, magic, checksum, queue offset, sysFlag, born, stored, reconsume times, body length of an IPv4 record.
_RECORD = Struct(">iii8xq8xiq8xq8xi8xi")
MAGIC = stored.MAGIC_V1  # of a record whose topic has up to 127 bytes
BODY_AT = 88
SIZE_MIN = BODY_AT + 3
SLOW_PATH = stored.BORN_HOST_V6 | stored.STORE_HOST_V6 | stored.INNER_BATCH | compression.COMPRESSED
_MAGICS = {magic.to_bytes(4, signed=True) for magic in (stored.MAGIC_V1, stored.MAGIC_V2)}
_OFFSET_AT = 20
_UNIQUE_KEY = f"{UNIQUE_KEY}{NAME_END}".encode()
_UNIQUE_KEY_AFTER_A_PAIR = PAIR_END.encode() + _UNIQUE_KEY  # another name may end in that one
ANYWHERE = (0, 1 << 62)


class _Damage(NamedTuple):
    """What becomes of damaged records; the same for one answer."""

    is_fatal: bool
    is_kept: bool
    span: tuple[int, int]
    has_tags: bool


class Columns:
    """Rows of one queue, in the order of their offsets. All lists are equally long."""

    __slots__ = (
        "bodies", "born_ms", "broken_at", "errors", "offset_ids", "offsets", "passed_over", "properties", "queue",
        "reconsume_times", "size", "stored_ms", "unread",
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
        self.passed_over: list[str] = []
        """Without `fail_on_loss`: why rows are missing, or have no body."""
        self.errors: dict[int, str] = {}
        """With `keep_damaged`: row -> why it has no body."""
        self.unread: set[int] = set()
        """With `keep_damaged`: rows of records that could not be read, which have an offset and nothing else."""
        self.broken_at: tuple[int, int] | None = None
        """Without `fail_on_loss`: where the newest answer could not be read any further, since a record's size lies.

        The least offset that the record can have, and the one that it says.
        """

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
        keep_damaged: bool = False,
        span: tuple[int, int] = ANYWHERE,
    ) -> None:
        """Decode a pull's answer, as far as offsets below `end`. RecordDamaged leaves rows that must not be used.

        Without `fail_on_loss` a damaged record is passed over, and a damaged body is None. With `keep_damaged` both are
        rows, and `errors` says why. `span` is from where to where the answer's offsets go.
        """
        damage = _Damage(fail_on_loss and not keep_damaged, keep_damaged, span, bool(tags))
        records = stored.Records(data, self.queue)
        unpack = _RECORD.unpack_from
        offsets, bodies, properties = self.offsets.append, self.bodies.append, self.properties.append
        born, stored_at, reconsumed = self.born_ms.append, self.stored_ms.append, self.reconsume_times.append
        this = at = 0
        stop = len(data)
        self.size += stop
        self.broken_at = None
        while at < stop:
            this = at
            try:
                size, magic, checksum, offset, flag, born_ms, stored_ms, times, body_size = unpack(data, at)
                following = at + size
                body_end = at + BODY_AT + body_size
                if (
                    flag & SLOW_PATH
                    or magic != MAGIC
                    or following > stop
                    or body_size < 0
                    or size < SIZE_MIN + body_size
                ):
                    at = self._slow_path(data, at, end, offset_delta, with_bodies, tags, damage)
                    continue
                offset += offset_delta
                texts_at = body_end + data[body_end] + 3
                texts_end = texts_at + (data[texts_at - 2] << 8 | data[texts_at - 1]) if texts_at <= following else stop
                if texts_at > following or texts_end > following:
                    records.properties(at)  # says what is wrong
                    raise AssertionError("refused a record that is sound")
                texts = data[texts_at:texts_end]
                at = following
                if offset >= end or (tags and records.tag(this) not in tags):
                    if keep_damaged and offset >= span[1]:
                        self._keep_unread(self._least(damage), offset, self._misplaced(offset, span), damage)
                    continue
                body = data[this + BODY_AT : body_end] if with_bodies else None
                if body is not None and crc32(body) & 0x7FFF_FFFF != checksum:
                    self._note_bad_body(records, this, damage)
                    body = None
                bodies(body)
                if _UNIQUE_KEY_AFTER_A_PAIR not in texts and not texts.startswith(_UNIQUE_KEY):
                    self.offset_ids[len(self.offsets)] = records.offset_message_id(this)
                offsets(offset)
                properties(texts)
                born(born_ms)
                stored_at(stored_ms)
                reconsumed(times)
            except (struct.error, RecordDamaged) as error:
                at = self._pass_over(data, this, offset_delta, damage, error)

    def _note_bad_body(self, records: stored.Records, at: int, damage: _Damage) -> None:
        error = records.damage(at)
        assert error is not None, "its checksum is wrong"
        if damage.is_fatal:
            raise error
        self._note(str(error), damage)

    def _note(self, reason: str, damage: _Damage) -> None:
        """Of a body that the next row is to have."""
        if damage.is_kept:
            self.errors[len(self.offsets)] = reason
        else:
            self.passed_over.append(f"{reason}; the row has no body")

    def _pass_over(self, data: bytes, at: int, delta: int, damage: _Damage, error: Exception) -> int:
        """Where the next record begins. Where the size lies, too, that is known to nobody, and the answer ends here."""
        stop = len(data)
        if isinstance(error, struct.error):
            error = RecordDamaged(f"{self.queue}: record at byte {at}: {stop - at} bytes are too few")
        if damage.is_fatal:
            raise error
        said = int.from_bytes(data[at + _OFFSET_AT : at + _OFFSET_AT + 8], signed=True) + delta
        least = self._least(damage)
        self._keep_unread(least, said, str(error), damage)
        size = int.from_bytes(data[at : at + 4], signed=True)
        following = at + size
        if size >= SIZE_MIN and (following == stop or data[following + 4 : following + 8] in _MAGICS):
            return following
        self.broken_at = (least, said)
        return stop

    def _keep_unread(self, least: int, said: int, reason: str, damage: _Damage) -> None:
        """A row for a record that cannot be read, at the offset that it says if that can be; without a tag it has none
        of those that are wanted.
        """
        upto = damage.span[1]
        if not damage.is_kept or damage.has_tags or least >= upto:
            self.passed_over.append(reason)
            return
        self.errors[len(self.offsets)] = reason
        self.unread.add(len(self.offsets))
        self.offsets.append(said if least <= said < upto else least)
        self.bodies.append(None)
        self.properties.append(b"")
        for numbers in (self.born_ms, self.stored_ms, self.reconsume_times):
            numbers.append(0)

    def mend(self, begin: int, end: int, since: int = 0) -> None:
        """With `keep_damaged`: rows from `since` on whose offset cannot be are unread. If each offset from `begin` to
        `end` - 1 has a row, they have that of their place.
        """
        is_whole = len(self) - since == end - begin
        least = begin
        for row in range(since, len(self)):
            said = self.offsets[row]
            if (said == begin + row - since) if is_whole else (least <= said < end):
                least = said + 1
                continue
            self.errors.setdefault(row, self._misplaced(said, (begin, end)))
            self.unread.add(row)
            self.bodies[row] = None
            if is_whole:
                self.offsets[row] = begin + row - since

    def _least(self, damage: _Damage) -> int:
        """The lowest offset that the next row can have."""
        return max(self.offsets[-1] + 1 if self.offsets else 0, damage.span[0])

    def _misplaced(self, said: int, span: tuple[int, int]) -> str:
        return f"{self.queue}: a record says offset {said} among those from {span[0]} to {span[1] - 1}"

    def _slow_path(
        self, data: bytes, at: int, end: int, delta: int, with_bodies: bool, tags: frozenset[str], damage: _Damage
    ) -> int:
        """A record by `wire.stored.decode`; returns where the next one begins."""
        (size,) = struct.unpack_from(">i", data, at)
        one = data[at : at + size] if size > 0 else data[at:]
        for message in stored.decode(one, self.queue, offset_delta=delta):
            if message.queue_offset < end and (not tags or message.tags in tags):
                self._append(message, with_bodies, damage)
        return at + int(size)

    def _append(self, message: Message, with_bodies: bool, damage: _Damage) -> None:
        texts = message.properties
        body: bytes | None = None
        if with_bodies:
            try:
                body = message.body
            except (BodyUndecodable, RecordDamaged) as error:
                reason = f"{self.queue} at offset {message.queue_offset}: {error}"
                if damage.is_fatal:
                    raise ProtocolError(reason) from error
                self._note(reason, damage)
        if UNIQUE_KEY not in texts:
            self.offset_ids[len(self.offsets)] = message.offset_message_id
        self.bodies.append(body)
        self.offsets.append(message.queue_offset)
        pairs = [f"{name}{NAME_END}{value}{PAIR_END}" for name, value in texts.items()]
        self.properties.append("".join(pairs).encode())
        self.born_ms.append(message.born_ms)
        self.stored_ms.append(message.stored_ms)
        self.reconsume_times.append(message.attempt - 1)

    def misplaced(self, begin: int, end: int, since: int = 0) -> int | None:
        """An offset outside of [begin, end), or not above the one before it, looking at the rows from `since` on."""
        offsets = self.offsets[since:]
        if not offsets or (
            begin <= offsets[0] and offsets[-1] < end and all(map(lt, offsets, islice(offsets, 1, None)))
        ):
            return None
        for offset in offsets:
            if not begin <= offset < end:
                return offset
            begin = offset + 1
        return None

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
