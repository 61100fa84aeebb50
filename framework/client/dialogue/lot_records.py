"""What is written down about lots, and what follows from it. Pure.

A lot is many half messages that share one end, under a name and a number that grows. Its records lie in one queue of
one broker, so that they have one order: of two decisions about one lot the first counts, whoever wrote it and whenever
it arrived. A decision names every half message of the lot; it is written before the first of them is ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from framework.client.dialogue.halves import HalfMessage, packed, unpacked
from framework.errors import ProtocolError, shorten
from framework.model.queue import MessageQueue

PIECE_BYTES = 1024 * 1024  # a quarter of what brokers take as a body
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a decision's list, which is too long for one message; the pieces stand before their decision."""

    token: str
    index: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Decided:
    """These half messages are the lot, and each will be committed."""

    lot: int
    token: str
    """Whose decision it is: one per attempt to decide."""
    pieces: int
    """So many pieces of the list stand before this record; the last one is `data`."""
    data: bytes
    in_order: bool = False
    """Whether those of one queue are committed one after the other."""
    lows: tuple[tuple[MessageQueue, int], ...] = ()
    """Where each queue ended before any of them was committed."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """From here on this token commits what is left of the lot, and no other."""

    lot: int
    token: str


@dataclass(frozen=True, slots=True)
class Done:
    """Each half message of this lot is committed."""

    lot: int


Record: TypeAlias = Piece | Decided | Claimed | Done


def decision(
    lot: int, token: str, halves: Sequence[HalfMessage], lows: Iterable[tuple[MessageQueue, int]], *, in_order: bool
) -> list[Record]:
    """The records of a decision, in the order in which they are to be written."""
    data = packed(halves)
    cuts = [data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES)]
    pieces: list[Record] = [Piece(token, index, each) for index, each in enumerate(cuts[:-1])]
    return [*pieces, Decided(lot, token, len(pieces), cuts[-1], in_order, tuple(lows))]


@dataclass(frozen=True, slots=True)
class Standing:
    """What the records of one name come to."""

    lot: int = -1
    """The newest that was decided."""
    pending: Decided | None = None
    """Its decision, until it is done."""
    claim: str = ""
    """Who commits it."""
    pieces: tuple[Piece, ...] = field(default=(), repr=False)
    """Those behind the last decision."""

    def after(self, record: Record) -> Standing:
        """What it is with the next record."""
        match record:
            case Piece():
                return replace(self, pieces=(*self.pieces, record))
            case Decided() if self.pending is None and record.lot > self.lot:
                mine = {piece.index: piece for piece in self.pieces if piece.token == record.token}
                return Standing(record.lot, record, record.token, tuple(mine[index] for index in sorted(mine)))
            case Decided():  # it came too late: another one counts
                return self
            case Claimed() if self.pending is not None and record.lot == self.lot:
                return replace(self, claim=record.token)
            case Done() if record.lot >= self.lot:
                return Standing(record.lot)
        return self

    def is_over(self, lot: int) -> bool:
        """Whether nothing is left to be done about this lot."""
        return lot < self.lot or (lot == self.lot and self.pending is None)

    def halves(self) -> list[HalfMessage]:
        """The half messages of the open lot. ProtocolError where a piece of the list is missing."""
        assert self.pending is not None, "what is done has no list"
        data = [piece.data for piece in self.pieces if piece.token == self.pending.token][: self.pending.pieces]
        if len(data) < self.pending.pieces:
            raise ProtocolError(f"lot {self.lot}: {self.pending.pieces - len(data)} pieces of its list are missing")
        return unpacked(b"".join([*data, self.pending.data]))


def body_of(name: str, record: Record) -> bytes:
    """A record as a message's body: a line of JSON, and behind it the list as it is."""
    said: dict[str, Any] = {"v": _VERSION, "name": name}
    data = b""
    match record:
        case Piece():
            said |= {"kind": "piece", "token": record.token, "index": record.index}
            data = record.data
        case Decided():
            lows = [[*queue, offset] for queue, offset in record.lows]
            said |= {"kind": "decided", "lot": record.lot, "token": record.token, "pieces": record.pieces}
            said |= {"in_order": record.in_order, "lows": lows}
            data = record.data
        case Claimed():
            said |= {"kind": "claimed", "lot": record.lot, "token": record.token}
        case Done():
            said |= {"kind": "done", "lot": record.lot}
    return json.dumps(said, separators=(",", ":")).encode() + b"\n" + data


def record_in(name: str, body: bytes) -> Record | None:
    """What a message of the topic says; None where it is about another name. ProtocolError for what is no record."""
    head, _, data = body.partition(b"\n")
    try:
        said = json.loads(head)
        if said["v"] != _VERSION:
            raise ValueError(f"version {said['v']}")
        return _record(said, data) if said["name"] == name else None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ProtocolError(f"a record of lots cannot be read: {shorten(str(error))}") from error


def _record(said: dict[str, Any], data: bytes) -> Record:
    match said["kind"]:
        case "piece":
            return Piece(str(said["token"]), int(said["index"]), data)
        case "decided":
            lows = tuple((MessageQueue(str(t), str(b), int(n)), int(offset)) for t, b, n, offset in said["lows"])
            pieces, in_order = int(said["pieces"]), bool(said["in_order"])
            return Decided(int(said["lot"]), str(said["token"]), pieces, data, in_order, lows)
        case "claimed":
            return Claimed(int(said["lot"]), str(said["token"]))
        case "done":
            return Done(int(said["lot"]))
    raise ValueError(f"kind {said['kind']}")
