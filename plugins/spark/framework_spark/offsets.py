"""Offsets of a query: what to read next, how much of it, in which pieces; and the texts that name queues. Pure.

A checkpoint has offsets as {topic: {broker: {queue: offset}}}, always in the same order: Spark compares them as texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from framework.model.queue import MessageQueue

EARLIEST, LATEST = -2, -1
Offsets: TypeAlias = dict[str, dict[str, dict[str, int]]]
"""Topic -> broker -> queue number as a text -> offset: what a checkpoint holds, and what startingOffsets may be."""
Assigned: TypeAlias = frozenset[tuple[str, str, int]]
"""Topic, broker, queue number; an empty broker stands for all of them."""
Lasts: TypeAlias = Mapping[MessageQueue, tuple[int, ...]]
"""Of queues, when the last message that was read was stored, and where in its broker's log: a Head."""
_LAST = "(last) "
_MOST = (1 << 63) - 1  # what RocketMQ's offsets and Java's numbers hold
_LAST_MS = 253_402_300_799_999  # the year 9999


class Range(NamedTuple):
    """Offsets `begin` to `end` - 1 of a queue."""

    queue: MessageQueue
    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin


def nested(ends: Mapping[MessageQueue, int]) -> Offsets:
    """As a checkpoint holds them."""
    offsets: Offsets = {}
    for queue, offset in sorted(ends.items()):
        offsets.setdefault(queue.topic, {}).setdefault(queue.broker, {})[str(queue.number)] = offset
    return offsets


def lasts_of(offsets: Mapping[str, Any]) -> Lasts:
    """What a checkpoint knows of the last message of each queue that was read."""
    return {
        MessageQueue(topic.removeprefix(_LAST), broker, int(number)): tuple(head)
        for topic, brokers in offsets.items()
        if topic.startswith(_LAST)
        for broker, queues in brokers.items()
        for number, head in queues.items()
    }


def with_lasts(ends: Mapping[MessageQueue, int], lasts: Lasts) -> Offsets:
    """As a checkpoint holds both, in the same shape: those of `(last) orders` are of the topic `orders`."""
    known: dict[MessageQueue, Any] = {
        queue._replace(topic=f"{_LAST}{queue.topic}"): list(head) for queue, head in lasts.items()
    }
    return nested(ends) | nested(known)


def flat(offsets: Offsets) -> dict[MessageQueue, int]:
    """By queue. What begins with a bracket is no topic: a report says more than offsets."""
    return {
        MessageQueue(topic, broker, int(number)): offset
        for topic, brokers in offsets.items()
        if not topic.startswith("(")
        for broker, queues in brokers.items()
        for number, offset in queues.items()
    }


def limited(
    begins: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int], limit: int
) -> dict[MessageQueue, int]:
    """Ends that leave at most about `limit` messages, each queue's share by what waits in it.

    A share of less than one message is rounded up, as in the Kafka source, so that a small queue beside a large one
    is never starved; a trigger may so exceed the limit by less than one message a queue.
    """
    waiting = {queue: max(end - begins[queue], 0) for queue, end in ends.items()}
    total = sum(waiting.values())
    if total <= limit:
        return dict(ends)
    found = {}
    for queue, end in ends.items():
        size = waiting[queue]
        share = max(size * limit // total, 1) if size else 0
        found[queue] = begins[queue] + share if size else end
    return found


def split(ranges: Iterable[Range], *, pieces_min: int | None, records_max: int | None) -> list[Range]:
    """The ranges, cut where somebody asked for it: each piece of at most `records_max`, `pieces_min` or more in all."""
    whole = [each for each in ranges if each.size > 0]
    if records_max is not None:
        whole = [piece for each in whole for piece in _cut(each, -(-each.size // records_max))]
    if pieces_min is None or len(whole) >= pieces_min:
        return whole
    total = sum(each.size for each in whole)
    return [piece for each in whole for piece in _cut(each, -(-each.size * pieces_min // total))]


def _cut(whole: Range, count: int) -> list[Range]:
    """Pieces that differ by at most one message."""
    count = min(count, whole.size)
    marks = [whole.begin + whole.size * step // count for step in range(count + 1)]
    return [Range(whole.queue, begin, end) for begin, end in pairwise(marks)]


# As texts that users write


def offsets_of(text: str) -> Offsets:
    """Of each queue an offset, EARLIEST or LATEST. ValueError for whatever else."""
    return _numbers_of(text, _offset)


def instants_of(text: str) -> Offsets:
    """Of each queue an instant in milliseconds since 1970. ValueError for whatever else."""
    return _numbers_of(text, _when)


def instant_of(text: str) -> int:
    """Milliseconds since 1970, of a number or a time with its zone. ValueError for whatever else."""
    if text.isdecimal():
        return _since_1970(int(text))
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ValueError("without a time zone")
    return _since_1970(int(when.timestamp() * 1000))


def assigned_of(text: str) -> Assigned:
    """`{"orders": {"broker-a": [0, 1]}}`, or `{"orders": [0, 1]}` of all brokers. ValueError for whatever else."""
    found = frozenset(_assigned(_json(text)))
    if not found:
        raise ValueError("no queue is named")
    return found


def _assigned(given: Any) -> Iterator[tuple[str, str, int]]:
    for topic, brokers in _pairs(given):
        for broker, numbers in [("", brokers)] if isinstance(brokers, list) else _pairs(brokers):
            if not isinstance(numbers, list) or not all(_is_natural(number) for number in numbers):
                raise ValueError(f"queues of {topic}: {numbers}")
            yield from ((topic, broker, number) for number in numbers)


def _numbers_of(text: str, number_of: Callable[[Any], int]) -> Offsets:
    found: Offsets = {}
    for topic, brokers in _pairs(_json(text)):
        if topic.startswith("("):
            continue  # no topic: somebody has copied a checkpoint's offsets
        for broker, queues in _pairs(brokers):
            for number, value in _pairs(queues):
                if not number.isdecimal() or str(int(number)) != number:
                    raise ValueError(f"queue {number}")
                found.setdefault(topic, {}).setdefault(broker, {})[number] = number_of(value)
    return found


def _offset(value: Any) -> int:
    if type(value) is not int or not EARLIEST <= value <= _MOST:
        raise ValueError(f"offset {value}")
    return value


def _when(value: Any) -> int:
    if type(value) is int:
        return _since_1970(value)
    if isinstance(value, str):
        return instant_of(value)
    raise ValueError(f"time {value}")


def _since_1970(when_ms: int) -> int:
    """Microseconds and nanoseconds, written by mistake, are years that no calendar has."""
    if not 0 <= when_ms <= _LAST_MS:
        raise ValueError(f"time {when_ms}")
    return when_ms


def _is_natural(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST


def _json(text: str) -> Any:
    """As JSON has it, but no name twice in an object: of two that are alike one would be lost."""
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _pairs(value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004  # of the text's shape, not of a caller's argument
    return list(value.items())
