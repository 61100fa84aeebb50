"""A message as a line of JSON: what `tail --json` prints, and people write by hand. Pure."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

KNOWN = ("body", "body_base64", "keys", "tags", "properties")
PRINTED = ("topic", "broker", "queue", "offset", "message_id", "born", "stored")
"""Told of a message that is stored somewhere; of a new one they are passed over."""


def fields_of(line: bytes) -> tuple[bytes, dict[str, Any]]:
    """The body, and keys, tags and properties where they are given. ValueError names the mistake."""
    try:
        found = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError("not UTF-8; save it so") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(  # noqa: TRY004 - shown as the line's mistake
            'write an object, such as {"body": "hello"}'
        )
    strangers = [name for name in found if name not in KNOWN and name not in PRINTED]
    if strangers:
        raise ValueError(f"unknown field {strangers[0]!r}; use {', '.join(KNOWN)}")
    if ("body" in found) == ("body_base64" in found):
        raise ValueError("give one of body and body_base64")
    return _body(found), {
        "keys": _texts(found.get("keys")),
        "tags": _tag(found.get("tags")),
        "properties": _properties(found.get("properties"), is_stored="message_id" in found),
    }


def _body(found: dict[str, Any]) -> bytes:
    if "body_base64" in found:
        try:
            return base64.b64decode(found["body_base64"], validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise ValueError("body_base64 is not base64") from None
    body = found["body"]
    return body.encode() if isinstance(body, str) else json.dumps(body, ensure_ascii=False).encode()


def _texts(value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else value or []
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise ValueError("keys must be a list of texts")
    return texts


def _tag(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError("tags must be a text")
    return value


def _properties(value: Any, *, is_stored: bool) -> dict[str, str]:
    """Of a stored message without those that clients and brokers put there: the new one gets its own."""
    from framework.model.message import DELAY_LEVEL, KEYS, TAGS, UNIQUE_KEY, WAIT_STORE
    from framework.model.sendable import RESERVED

    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise ValueError("properties must be an object of texts")
    own = RESERVED | {UNIQUE_KEY, WAIT_STORE, DELAY_LEVEL, KEYS, TAGS} if is_stored else frozenset[str]()
    return {name: each for name, each in value.items() if name not in own}
