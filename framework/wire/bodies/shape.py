"""How a dataclass stands in JSON: by its annotations.

    str, bool, int, Int32, float, bytes (base64)      a value; a number or boolean may come as a text, as Java takes it
    tuple[X, ...]                                     a list
    Mapping[str | int | MessageQueue, X]              an object; a queue as its key is an object itself
    MessageQueue                                      {"brokerName":, "queueId":, "topic":}
    another body                                      an object
    X | None                                          left out when None

Names are camelCase, or `wire("name")`. Unknown names are ignored; null is the field's default. Names are written in
alphabetical order, as Java writes them. A value of the wrong kind is a ProtocolError with the way to it.
"""

from __future__ import annotations

import types
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field
from dataclasses import fields as fields_of
from typing import Any, NamedTuple, Self, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

from framework.errors import ProtocolError, shorten
from framework.model.queue import MessageQueue
from framework.wire import dialect
from framework.wire.dialect import ObjectKey
from framework.wire.fields import Int32, camel, int_of, value_class, wire

B = TypeVar("B")
Read = Callable[[Any, str], Any]
Write = Callable[[Any], Any]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(wire,))
def body(kind: type[B]) -> type[B]:
    """A class of JSON fields: slotted, keyword-only, and frozen for the type checker."""
    return value_class(kind)


class Body:
    """What every body can do. Inherited, because a decorator's additions are invisible to type checkers."""

    __slots__ = ()

    def encode(self, *, quote_integer_keys: bool = True) -> bytes:
        """As JSON; without quotes round integer keys as old Java servers write and old Go clients need them."""
        return dialect.dumps(to_json(self), quote_integer_keys=quote_integer_keys)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """From standard JSON or Java's dialect, or ProtocolError."""
        return from_json(cls, dialect.loads(data), cls.__name__)


def to_json(value: Any) -> dict[str, Any]:
    """The body as plain values for `dialect.dumps`."""
    return {
        entry.wire_name: entry.write(item)
        for entry in _plan(type(value)).sorted
        if (item := getattr(value, entry.name)) is not None
    }


def from_json(kind: type[B], value: Any, path: str) -> B:
    """The body out of plain values; `path` names it in errors."""
    if type(value) is not dict and not isinstance(value, ObjectKey):
        raise ProtocolError(f"{path}={shorten(value)} is not an object")
    found: dict[str, Any] = {}
    for entry in _plan(kind).entries:
        item = value.get(entry.wire_name)
        if item is not None:
            found[entry.name] = entry.read(item, f"{path}.{entry.wire_name}")
        elif entry.is_required:
            raise ProtocolError(f"{path}.{entry.wire_name} is missing")
    return kind(**found)


class _Entry(NamedTuple):
    name: str
    wire_name: str
    read: Read
    write: Write
    is_required: bool


class _Plan(NamedTuple):
    entries: tuple[_Entry, ...]
    sorted: tuple[_Entry, ...]


_plans: dict[Any, _Plan] = {}


def _plan(kind: Any) -> _Plan:
    """How this class is read and written; worked out when it is first used."""
    try:
        return _plans[kind]
    except KeyError:
        hints = get_type_hints(kind, include_extras=True)
        entries = tuple(_entry(one, hints[one.name]) for one in fields_of(kind))
        plan = _plans[kind] = _Plan(entries, tuple(sorted(entries, key=lambda entry: entry.wire_name)))
        return plan


def _entry(one: Field[Any], hint: Any) -> _Entry:
    read, write = _converters(hint)
    is_required = one.default is MISSING and one.default_factory is MISSING
    return _Entry(one.name, one.metadata.get("wire") or camel(one.name), read, write, is_required)


def _converters(hint: Any) -> tuple[Read, Write]:
    if hint in _SCALARS:
        return _SCALARS[hint], _as_it_is
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {types.UnionType, Union}:
        (hint,) = (part for part in arguments if part is not type(None))
        return _converters(hint)
    if origin is tuple:
        return _tuple_converters(arguments[0])
    if origin is Mapping:
        return _mapping_converters(*arguments)
    if hint is MessageQueue:
        return read_queue, write_queue
    return (lambda value, path: from_json(hint, value, path)), to_json


def _tuple_converters(hint: Any) -> tuple[Read, Write]:
    read, write = _converters(hint)

    def read_all(value: Any, path: str) -> Any:
        if type(value) is not list:
            raise ProtocolError(f"{path}={shorten(value)} is not a list")
        if read is _text and {*map(type, value)} == {str}:  # the member list of a large group, above all
            return tuple(value)
        return tuple(read(item, f"{path}[]") for item in value)

    return read_all, lambda values: [write(value) for value in values]


def _mapping_converters(key_hint: Any, hint: Any) -> tuple[Read, Write]:
    read, write = _converters(hint)
    read_key, write_key = _KEYS[key_hint]

    def read_all(value: Any, path: str) -> Any:
        if type(value) is list and key_hint is MessageQueue:
            return {key: read(item, f"{path}[]") for key, item in _pairs(value, path)}
        if type(value) is not dict:
            raise ProtocolError(f"{path}={shorten(value)} is not an object")
        return {read_key(key, path): read(item, f"{path}[]") for key, item in value.items() if item is not None}

    return read_all, lambda values: {write_key(key): write(value) for key, value in values.items()}


def _pairs(value: list[Any], path: str) -> list[tuple[MessageQueue, Any]]:
    """Such a map as other serializers write it: `[[queue, value]]`, or `[{queue's parts, "offset":}]`."""
    pairs = []
    for item in value:
        if type(item) is list and len(item) == 2:
            pairs.append((read_queue(item[0], path), item[1]))
        elif type(item) is dict and "offset" in item:
            pairs.append((read_queue(item, path), item["offset"]))
        else:
            raise ProtocolError(f"{path}: {shorten(item)} is not a queue and its value")
    return pairs


def read_queue(value: Any, path: str) -> MessageQueue:
    """A queue as an object, in a value's place or in a key's."""
    if not isinstance(value, dict | ObjectKey):
        raise ProtocolError(f"{path}: {shorten(value)} is not a queue")
    return MessageQueue(
        _text(value.get("topic"), f"{path}.topic"),
        _text(value.get("brokerName"), f"{path}.brokerName"),
        _int32(value.get("queueId"), f"{path}.queueId"),
    )


def write_queue(queue: MessageQueue) -> dict[str, Any]:
    return {"brokerName": queue.broker, "queueId": queue.number, "topic": queue.topic}


def _as_it_is(value: Any) -> Any:
    return value


def _text(value: Any, path: str) -> str:
    if type(value) is not str:
        raise ProtocolError(f"{path}={shorten(value)} is not a text")
    return value


def _bool(value: Any, path: str) -> bool:
    if type(value) is bool:
        return value
    if type(value) is str and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    raise ProtocolError(f"{path}={shorten(value)} is not a boolean")


def _int64(value: Any, path: str) -> int:
    return _integer(value, path, 64)


def _int32(value: Any, path: str) -> int:
    return _integer(value, path, 32)


def _integer(value: Any, path: str, bits: int) -> int:
    try:
        if type(value) is str:
            return int_of(value, bits)
        if type(value) is not int:
            raise ValueError("is not an integer")
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise ValueError(f"is outside {bits} bits")
    except ValueError as error:
        raise ProtocolError(f"{path}={shorten(value)} {error}") from error
    return value


def _float(value: Any, path: str) -> float:
    if type(value) is int or type(value) is float:
        number = value if -1e300 < value < 1e300 else None
        if number is not None:
            return float(number)
    raise ProtocolError(f"{path}={shorten(value)} is not a finite number")


def _bytes(value: Any, path: str) -> bytes:
    try:
        return b64decode(_text(value, path), validate=True)
    except (Base64Error, ValueError) as error:
        raise ProtocolError(f"{path}={shorten(value)} is not base64") from error


def _integer_key(key: Any, path: str) -> int:
    return _integer(key, f"{path} key ", 64)


def _text_key(key: Any, path: str) -> str:
    return str(key) if type(key) is int else _text(key, f"{path} key ")


_SCALARS: dict[Any, Read] = {str: _text, bool: _bool, int: _int64, Int32: _int32, float: _float, bytes: _bytes}
_KEYS: dict[Any, tuple[Read, Write]] = {
    str: (_text_key, _as_it_is),
    int: (_integer_key, _as_it_is),
    MessageQueue: (read_queue, lambda queue: ObjectKey(write_queue(queue))),
}
