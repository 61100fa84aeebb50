"""Java's dialect of JSON, as fastjson writes and reads it.

Beyond the standard it has integers as keys without quotes (`{0:"ip:port"}`) and objects as keys
(`{{"brokerName":"b","queueId":0,"topic":"T"}:5}`). Standard text goes through the standard library; what that refuses,
through the parser here. Owns the limits on size, depth and number of values. It knows no body in particular.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from framework.errors import ProtocolError, shorten
from framework.mistakes import MessageWrong
from framework.wire.fastjson import Real

# A body of JSON is opened whole, and small values take many times their text's room: so it is held below the frame's
# limit. 30,000 topics with names of 127 characters still fit, and the progress of a group on 16,000 queues.
BYTES_MAX = 4 * 1024 * 1024
CONTAINERS_MAX = 50_000
VALUES_MAX = 150_000
DEPTH_MAX = 64

_BLANK = re.compile(r"[ \t\r\n]*")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})(?![0-9])")
_quoted = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class ObjectKey(Mapping[str, Any]):
    """An object of plain values that stands as a key. Equal and hashed by content, whatever the order."""

    __slots__ = ("_hash", "_items")

    def __init__(self, items: Mapping[str, Any]) -> None:
        self._items = dict(items)
        self._hash = hash(frozenset(self._items.items()))

    def __getitem__(self, name: str) -> Any:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectKey) and self._items == other._items

    def __repr__(self) -> str:
        return f"ObjectKey({self._items})"


def loads(data: bytes | str) -> Any:
    """The value, or ProtocolError. Of a key given twice the last wins."""
    if len(data) > BYTES_MAX:
        raise ProtocolError(f"JSON body of {len(data)} bytes exceeds the limit of {BYTES_MAX}")
    try:
        text = data if isinstance(data, str) else data.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"JSON body is not UTF-8 at byte {error.start}") from error
    # Counted before anything is built; marks inside of texts count too, which no honest body notices.
    containers = text.count("[") + text.count("{")
    if containers > CONTAINERS_MAX or containers + text.count(",") > VALUES_MAX:
        raise ProtocolError(f"JSON body holds more than {CONTAINERS_MAX} objects and lists, or {VALUES_MAX} values")
    try:
        value = _decoder.decode(text)
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError:
        value = _Parser(text).whole()
    if "\\u" in text:
        _refuse_lone_surrogates(value)
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(text)


# Not strict, and numbers with a point as they were written: as fastjson reads them (`fastjson.py`).
_decoder = json.JSONDecoder(strict=False, parse_constant=_refuse_constant, parse_float=Real)
_scan: Any = _decoder.scan_once  # type: ignore[attr-defined]  # typeshed leaves it out


def _too_deep() -> ProtocolError:
    return ProtocolError(f"JSON body is nested deeper than {DEPTH_MAX}")


def _refuse_lone_surrogates(value: object) -> None:
    """Only escapes can make them. They would fail later and elsewhere, when the text is written again."""
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            try:
                item.encode()
            except UnicodeEncodeError as error:
                raise ProtocolError("JSON body holds a lone surrogate") from error
        elif isinstance(item, Mapping):
            left += item.keys()
            left += item.values()
        elif isinstance(item, list):
            left += item


class _Parser:
    """Reads the dialect in one pass from left to right. Plain values are left to the standard library's scanner."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def whole(self) -> Any:
        try:
            value, at = self._value(self._skip(0), 0)
        except IndexError as error:  # only ever of the text
            raise self._unexpected(len(self._text)) from error
        if at != len(self._text):
            raise self._unexpected(at)
        return value

    def _skip(self, at: int) -> int:
        """Where the next character is that is no blank; at the end of the text, there."""
        if self._text[at : at + 1] in " \t\r\n":
            found = _BLANK.match(self._text, at)
            assert found is not None
            return found.end()
        return at

    def _value(self, at: int, depth: int) -> tuple[Any, int]:
        """The value at a place that is no blank, and the next such place after it; so do the others."""
        mark = self._text[at]
        if mark == "{":
            return self._object(at, depth + 1)
        if mark == "[":
            return self._list(at, depth + 1)
        try:
            value, at = _scan(self._text, at)
        except StopIteration:
            raise self._unexpected(at) from None
        except ValueError as error:
            raise ProtocolError(f"JSON body: {shorten(str(error))} was not expected at character {at}") from error
        return value, self._skip(at)

    def _object(self, at: int, depth: int) -> tuple[dict[Any, Any], int]:
        if depth > DEPTH_MAX:
            raise _too_deep()
        text, skip, read = self._text, self._skip, self._value
        found: dict[Any, Any] = {}
        at = skip(at + 1)
        if text[at] == "}":
            return found, skip(at + 1)
        while True:
            key, at = self._key(at, depth)
            if text[at] != ":":
                raise self._unexpected(at)
            found[key], at = read(skip(at + 1), depth)
            if text[at] == "}":
                return found, skip(at + 1)
            if text[at] != ",":
                raise self._unexpected(at)
            at = skip(at + 1)

    def _key(self, at: int, depth: int) -> tuple[str | int | ObjectKey, int]:
        mark = self._text[at]
        if mark == '"':
            return self._value(at, depth)
        if mark == "{":
            items, at = self._object(at, depth + 1)
            # Kept flat: keys with lists inside could all share one hash, and a hostile body take for ever.
            if any(isinstance(item, dict | list) for item in items.values()):
                raise ProtocolError(f"JSON body: {shorten(items)} as a key holds more than plain values")
            return ObjectKey(items), at
        found = _INTEGER.match(self._text, at)
        if found is None:
            raise self._unexpected(at)
        return int(found[0]), self._skip(found.end())

    def _list(self, at: int, depth: int) -> tuple[list[Any], int]:
        if depth > DEPTH_MAX:
            raise _too_deep()
        text, skip, read = self._text, self._skip, self._value
        found: list[Any] = []
        at = skip(at + 1)
        if text[at] == "]":
            return found, skip(at + 1)
        while True:
            value, at = read(at, depth)
            found.append(value)
            if text[at] == "]":
                return found, skip(at + 1)
            if text[at] != ",":
                raise self._unexpected(at)
            at = skip(at + 1)

    def _unexpected(self, at: int) -> ProtocolError:
        if at >= len(self._text):
            return ProtocolError(f"JSON body ends too early, after {at} characters")
        return ProtocolError(f"JSON body: {shorten(self._text[at : at + 20])} was not expected at character {at}")


def dumps(value: Any, *, quote_integer_keys: bool = True) -> bytes:
    """The text. Keys may be texts, integers (in quotes, or bare as fastjson writes them) and `ObjectKey`s."""
    parts: list[str] = []
    _write(value, parts.append, quote_integer_keys)
    try:
        return "".join(parts).encode()
    except UnicodeEncodeError as error:
        raise MessageWrong(f"{shorten(error.object[error.start - 20 : error.end])} holds a lone surrogate") from error


def _write(value: Any, out: Any, quote: bool) -> None:
    if isinstance(value, str):
        out(_quoted(value))
    elif isinstance(value, Mapping):
        mark = "{"
        for key, item in value.items():
            out(mark)
            _write_key(key, out, quote)
            out(":")
            _write(item, out, quote)
            mark = ","
        out("}" if value else "{}")
    elif isinstance(value, list | tuple):
        if {*map(type, value)} == {str}:  # the member list of a large group, above all
            out(_quoted(value))
            return
        mark = "["
        for item in value:
            out(mark)
            _write(item, out, quote)
            mark = ","
        out("]" if value else "[]")
    elif isinstance(value, bytes):
        out(f'"{b64encode(value).decode()}"')
    else:
        out(_scalar(value))


def _write_key(key: object, out: Any, quote: bool) -> None:
    if isinstance(key, ObjectKey):
        _write(key, out, quote)
    elif isinstance(key, int):
        out(f'"{key:d}"' if quote else f"{key:d}")
    else:
        out(_quoted(key))


def _scalar(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        # Java writes what is not finite as null.
        return repr(value) if value - value == 0 else "null"
    assert isinstance(value, int), value
    return str(value)
