"""Trace records as RocketMQ's tools read them: fields joined by 0x01, each record ended by 0x02.

A missing text is the word `null`, as Java writes it: its decoder splits at the separators, loses empty fields at a
record's end, and then fails on the whole message. Neither separator can occur in a field, since properties use both.
"""

from __future__ import annotations

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
