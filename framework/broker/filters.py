"""Subscriptions as the broker filters by them: hashes of tags, or an SQL92 condition on a message's properties.

RocketMQ compares the hashes of tags, and clients check their text; what SQL92 lets through no client checks again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import lru_cache
from typing import NamedTuple

from framework.broker.answers import Answer, InSteps, Refusal
from framework.broker.store.log import SCAN_MAX, Log, Slice
from framework.broker.store.queues import Queue
from framework.broker.switches import Switches
from framework.broker.work import Work, asking, reading
from framework.errors import RecordDamaged, Sql92Error, bare
from framework.model import sql92
from framework.model.queue import MessageQueue
from framework.model.sql92 import Expression
from framework.model.subscription import EVERYTHING, Subscription, java_hash
from framework.wire.codes import ResponseCode
from framework.wire.stored import Records, properties_size

TAG = "TAG"
SQL92 = "SQL92"
KINDS = (TAG, SQL92)
NO_TAG = 0
"""The hash of nothing: what a message without tags is stored with."""
TAG_BYTES = 64
CONDITION_BYTES = 128  # a character
_KEPT_CHARS_MAX = 1024
EXPRESSION_MAX = 64 * 1024  # characters: what a pull's header may have


class Meaning(NamedTuple):
    """What an expression says."""

    hashes: frozenset[int] | None = None
    """None: every message."""
    condition: sql92.Expression | None = None
    """Of an SQL92 subscription that can be understood."""
    mistake: str = ""
    """Why one cannot."""


class Wanted:
    """What a group wants of a topic, as its last heartbeat or this pull says.

    It is read when something is first read by it: a heartbeat names a thousand, and costs their sender nothing.
    """

    __slots__ = ("_meaning", "expression", "is_strict", "kind", "topic", "version")

    def __init__(
        self,
        topic: str,
        expression: str | None = None,
        *,
        kind: str | None = None,
        version: int = 0,
        is_strict: bool = False,
    ) -> None:
        """An empty expression of tags is everything, as RocketMQ reads it.

        `is_strict` refuses SQL92 that RocketMQ takes and reads as something else than what was written.
        """
        self.topic, self.kind, self.version = topic, kind or TAG, version
        self.expression = expression or ("" if kind == SQL92 else EVERYTHING)
        self.is_strict = is_strict
        self._meaning: Meaning | None = None

    @property
    def is_read(self) -> bool:
        """Whether it is known what it says, so that asking for it costs nothing."""
        return self._meaning is not None or self.kind != SQL92 or _CONDITIONS.knows(self.expression, self.is_strict)

    @property
    def hashes(self) -> frozenset[int] | None:
        return self._read().hashes

    @property
    def condition(self) -> sql92.Expression | None:
        return self._read().condition

    @property
    def mistake(self) -> str:
        return self._read().mistake

    def _read(self) -> Meaning:
        meaning = self._meaning
        if meaning is None:
            if self.kind == SQL92:
                meaning = _CONDITIONS.read(self.expression, self.is_strict)
            else:
                meaning = Meaning(_hashes(self.expression) if self.kind == TAG else None)
            self._meaning = meaning
        return meaning

    def __repr__(self) -> str:
        return f"Wanted({self.topic!r}, {self.expression!r}, kind={self.kind!r}, version={self.version})"


def read_first(wish: Wanted, answer: Callable[[], Answer]) -> InSteps:
    """Where a condition is still to be read: to do that when no other one is read, and to answer after it.

    The longest takes fifteen milliseconds, and a hundred connections may bring one each.
    """

    def steps() -> Generator[None, None, Answer]:
        yield
        _CONDITIONS.read(wish.expression, wish.is_strict)
        return answer()

    return InSteps(steps(), is_short=True)


def check_kind(switches: Switches, kind: str) -> None:
    """Refuse (1) kinds of expression that are none, or that are switched off."""
    if kind not in KINDS or (kind == SQL92 and not switches.filters_sql):
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            "The broker does not support consumer to filter message by " + bare(kind),
        )


def weight_of(wanted: Wanted) -> int:
    """About how many bytes it will hold: an expression that was read costs much more than its text."""
    text, is_sql = wanted.expression, wanted.kind == SQL92
    tags = 0 if is_sql or text == EVERYTHING else text.count("||") + 1
    return len(wanted.topic) + len(wanted.kind) + len(text) * (CONDITION_BYTES if is_sql else 1) + tags * TAG_BYTES


def _hashes(expression: str) -> frozenset[int] | None:
    return _short_hashes(expression) if len(expression) <= _KEPT_CHARS_MAX else _hashes_in(expression)


@lru_cache(maxsize=1024)
def _short_hashes(expression: str) -> frozenset[int] | None:
    return _hashes_in(expression)


def _hashes_in(expression: str) -> frozenset[int] | None:
    subscription = Subscription("", expression)
    return frozenset(subscription.tag_hashes) if subscription.tags else None


class _Conditions:
    """Conditions that were read, by their text: what is asked for again is not read again, whoever asks.

    As many as have this many characters together; the one that was asked for longest ago goes first.
    """

    def __init__(self, characters_max: int) -> None:
        self._characters_max, self._characters = characters_max, 0
        self._known: dict[tuple[str, bool], Meaning] = {}

    def knows(self, text: str, is_strict: bool) -> bool:
        return (text, is_strict) in self._known

    def read(self, text: str, is_strict: bool) -> Meaning:
        key = (text, is_strict)
        meaning = self._known.pop(key, None)
        if meaning is None:
            meaning = _condition(text, is_strict=is_strict)
            self._characters += len(text)
        self._known[key] = meaning
        while self._characters > self._characters_max and len(self._known) > 1:
            (oldest, _) = first = next(iter(self._known))
            del self._known[first]
            self._characters -= len(oldest)
        return meaning


def _condition(expression: str, *, is_strict: bool) -> Meaning:
    """The condition, or what is wrong with it and where."""
    try:
        return Meaning(condition=sql92.parse(expression, is_strict=is_strict))
    except Sql92Error as error:
        return Meaning(mistake=str(error))


_CONDITIONS = _Conditions(256 * 1024)  # some 30 MiB


@lru_cache(maxsize=4096)
def tag_hash(tag: str | None) -> int:
    return java_hash(tag) if tag else NO_TAG


# Read at a time: a condition that takes nearly everything has little read for nothing.
_PORTION = 64
_PORTION_BYTES = 1024 * 1024


def read_wanted(
    log: Log, queue: Queue, start: int, wanted: Wanted, work: Work, *, count_max: int, bytes_max: int
) -> Slice:
    """Messages from `start` on that are wanted; an empty slice may still have moved on."""
    if wanted.condition is not None:
        return _read_matching(log, queue, start, wanted.condition, work, count_max=count_max, bytes_max=bytes_max)
    if wanted.hashes is not None:
        work.take(SCAN_MAX)
        return log.read_tagged(queue, start, wanted.hashes, count_max=count_max, bytes_max=bytes_max)
    return log.read(queue, start, count_max=count_max, bytes_max=bytes_max)


def _read_matching(
    log: Log, queue: Queue, start: int, condition: Expression, work: Work, *, count_max: int, bytes_max: int
) -> Slice:
    """Messages that the condition is TRUE of. The store knows tags only, so records are read in portions, and their
    properties held against it here. At least one is looked at, whatever it costs.
    """
    end = min(queue.end, start + SCAN_MAX)
    place = MessageQueue(queue.topic, queue.broker, queue.number)
    found: list[bytes] = []
    offset, room = start, bytes_max
    while offset < end and (work.left > 0 or offset == start):
        try:
            portion = log.read(queue, offset, count_max=min(_PORTION, end - offset), bytes_max=_PORTION_BYTES)
        except RecordDamaged:
            # What is sound before a damaged message is served; the next pull then begins with it.
            if offset > start:
                return Slice(found, offset)
            raise
        work.take(sum([reading(len(record)) for record in portion.records]))
        for record in portion.records:
            records = Records(record, place)
            steps = asking(condition, properties_size(records, 0))
            if steps > work.left and offset > start:
                return Slice(found, offset)
            work.take(steps)
            if condition.matches(records.properties(0)):
                room -= len(record)
                if found and room < 0:
                    return Slice(found, offset)
                found.append(record)
            offset += 1
            if len(found) == count_max:
                return Slice(found, offset)
    return Slice(found, offset)
