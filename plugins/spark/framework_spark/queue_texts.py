"""Texts in JSON that name queues: their offsets, the times they begin or end at, or which of them are read. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, TypeAlias

EARLIEST, LATEST = -2, -1
Offsets: TypeAlias = dict[str, dict[str, dict[str, int]]]
"""Topic -> broker -> queue number as a text -> offset: what a checkpoint holds, and what startingOffsets may be."""
Assigned: TypeAlias = frozenset[tuple[str, str, int]]
"""Topic, broker, queue number; an empty broker stands for all of them."""


def offsets_of(text: str) -> Offsets:
    """Of each queue an offset, EARLIEST or LATEST. ValueError for whatever else."""
    return _numbers_of(text, _offset)


def instants_of(text: str) -> Offsets:
    """Of each queue an instant in milliseconds since 1970. ValueError for whatever else."""
    return _numbers_of(text, _when)


def instant_of(text: str) -> int:
    """Milliseconds since 1970, of a number or a time with its zone. ValueError for whatever else."""
    if text.isdecimal():
        return int(text)
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ValueError("without a time zone")
    return int(when.timestamp() * 1000)


def assigned_of(text: str) -> Assigned:
    """`{"orders": {"broker-a": [0, 1]}}`, or `{"orders": [0, 1]}` of all brokers. ValueError for whatever else."""
    found = frozenset(_assigned(json.loads(text)))
    if not found:
        raise ValueError("no queue is named")
    return found


def _assigned(given: Any) -> Iterator[tuple[str, str, int]]:
    for topic, brokers in _pairs(given):
        for broker, numbers in [("", brokers)] if isinstance(brokers, list) else _pairs(brokers):
            if not isinstance(numbers, list) or not all(type(number) is int and number >= 0 for number in numbers):
                raise ValueError(f"queues of {topic}: {numbers}")
            yield from ((topic, broker, number) for number in numbers)


def _numbers_of(text: str, number_of: Callable[[Any], int]) -> Offsets:
    found: Offsets = {}
    for topic, brokers in _pairs(json.loads(text)):
        if topic.startswith("("):
            continue  # no topic: somebody has copied a checkpoint's offsets
        for broker, queues in _pairs(brokers):
            for number, value in _pairs(queues):
                if not number.isdecimal():
                    raise ValueError(f"queue {number}")
                found.setdefault(topic, {}).setdefault(broker, {})[number] = number_of(value)
    return found


def _offset(value: Any) -> int:
    if type(value) is not int or value < EARLIEST:
        raise ValueError(f"offset {value}")
    return value


def _when(value: Any) -> int:
    if type(value) is int and value >= 0:
        return value
    if isinstance(value, str):
        return instant_of(value)
    raise ValueError(f"time {value}")


def _pairs(value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004  # of the text's shape, not of a caller's argument
    return list(value.items())
