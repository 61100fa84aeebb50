"""Trace records as RocketMQ's tools read them: fields joined by 0x01, each record ended by 0x02.

A missing text is the word `null`, as Java writes it: its decoder splits at the separators, loses empty fields at a
record's end, and then fails on the whole message. Neither separator can occur in a field, since properties use both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

FIELD_END = "\x01"
RECORD_END = "\x02"
MISSING = "null"

# MessageType's ordinals
NORMAL = 0
DELAYED = 3


def _record(*fields: object) -> str:
    return FIELD_END.join(map(_text, fields)) + RECORD_END


def _text(field: object) -> str:
    if isinstance(field, bool):
        return "true" if field else "false"
    return str(field) if field not in {None, ""} else MISSING


def before(
    at_ms: int, region: str, group: str, request_id: str, message_id: str, retries: int, keys: str | None
) -> str:
    """SubBefore: a handler begins."""
    return _record("SubBefore", at_ms, region, group, request_id, message_id, retries, keys)


def after(
    request_id: str,
    message_id: str,
    cost_ms: int,
    keys: str | None,
    code: int,
    at_ms: int,
    group: str,
    *,
    success: bool,
) -> str:
    """SubAfter: it has ended. `code` is ConsumeReturnType's ordinal."""
    return _record("SubAfter", request_id, message_id, cost_ms, success, keys, code, at_ms, group)


def published(
    at_ms: int, region: str, group: str, topic: str, message_id: str, tags: str | None, keys: str | None, broker: str,
    body_bytes: int, cost_ms: int, kind: int, offset_message_id: str, *, success: bool,
) -> str:  # fmt: skip
    """Pub: a message was stored."""
    return _record(
        "Pub", at_ms, region, group, topic, message_id, tags, keys, broker, body_bytes, cost_ms, kind,
        offset_message_id, success,
    )  # fmt: skip


# Reading


@dataclass(frozen=True, slots=True)
class TracedSend:
    """A message was sent. `message_ids`: of a batch Java's producers name all in one record."""

    at_ms: int
    group: str
    topic: str
    message_ids: tuple[str, ...]
    broker: str
    cost_ms: int
    is_stored: bool


@dataclass(frozen=True, slots=True)
class TracedStart:
    """A handler began; its end names the same request."""

    at_ms: int
    group: str
    request_id: str
    message_id: str
    retries: int


@dataclass(frozen=True, slots=True)
class TracedEnd:
    """A handler's end. `code` is ConsumeReturnType's ordinal; older clients say none, nor a group."""

    request_id: str
    message_id: str
    cost_ms: int
    is_success: bool
    code: int | None


@dataclass(frozen=True, slots=True)
class TracedDecision:
    """A transaction's end."""

    at_ms: int
    group: str
    topic: str
    message_ids: tuple[str, ...]
    state: str


Traced: TypeAlias = TracedSend | TracedStart | TracedEnd | TracedDecision


def decode(text: str) -> Iterator[Traced]:
    """The records of one trace message, of whatever client; one that is no such record is left out."""
    for record in text.split(RECORD_END):
        fields = [None if field == MISSING else field for field in record.split(FIELD_END)]
        try:
            yield _READ[fields[0] or ""](fields)
        except (KeyError, IndexError, ValueError):
            continue


def _sent(fields: Sequence[str | None]) -> TracedSend:
    # Before 4.3 a record ended with its type, or with an offset id: it was written only where the send succeeded.
    is_stored = fields[13] != "false" if len(fields) > 13 else fields[-1] != "false"
    return TracedSend(
        _number(fields[1]), fields[3] or "", fields[4] or "", _several(fields[5]), fields[8] or "", _number(fields[10]),
        is_stored,
    )  # fmt: skip


def _begun(fields: Sequence[str | None]) -> TracedStart:
    return TracedStart(_number(fields[1]), fields[3] or "", fields[4] or "", fields[5] or "", _number(fields[6]))


def _ended(fields: Sequence[str | None]) -> TracedEnd:
    code = _number(fields[6]) if len(fields) > 6 and fields[6] else None
    return TracedEnd(fields[1] or "", fields[2] or "", _number(fields[3]), fields[4] == "true", code)


def _decided(fields: Sequence[str | None]) -> TracedDecision:
    return TracedDecision(_number(fields[1]), fields[3] or "", fields[4] or "", _several(fields[5]), fields[11] or "")


def _several(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (text or "").split(",")))


def _number(text: str | None) -> int:
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise ValueError(text)
    return int(text)


_READ: dict[str, Callable[[Sequence[str | None]], Traced]] = {
    "Pub": _sent, "SubBefore": _begun, "SubAfter": _ended, "EndTransaction": _decided,
}  # fmt: skip
