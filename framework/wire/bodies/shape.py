"""How a dataclass stands in JSON: by its annotations.

    str, bool, int, Int32, float, bytes (base64)      a value
    Annotated[str, (names)]                           an enum's name; its number is read, too (`enums.py`)
    tuple[X, ...]                                     a list; one value is read as the list of it
    Mapping[str | int | MessageQueue, X]              an object; a queue as its key is an object itself
    MessageQueue                                      {"brokerName":, "queueId":, "topic":}
    another body                                      an object
    X | None                                          left out when None

Names are camelCase, or `wire("name")`. Unknown names are ignored. Names are written in alphabetical order, as Java
writes them. A value of another kind is taken for what RocketMQ takes it for (`wire/fastjson.py`). Null, and where no
text is meant also "" and "null", is the field's default, but 0 or false for numbers and booleans. What RocketMQ refuses
is a ProtocolError with the way to it.
"""

from __future__ import annotations

import types
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field
from dataclasses import fields as fields_of
from functools import cache
from typing import (
    Annotated,
    Any,
    NamedTuple,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from framework.errors import ProtocolError, shorten
from framework.model.queue import MessageQueue
from framework.wire import dialect, fastjson
from framework.wire.dialect import ObjectKey
from framework.wire.fastjson import Real
from framework.wire.fields import Fields, Int32, camel

B = TypeVar("B")
Read = Callable[[Any, str], Any]
Write = Callable[[Any], Any]


class Body(Fields):
    """An object of JSON."""

    def encode(self, *, quote_integer_keys: bool = True) -> bytes:
        """As JSON; without quotes round integer keys as old Java servers write and old Go clients need them."""
        return dialect.dumps(to_json(self), quote_integer_keys=quote_integer_keys)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """From standard JSON or Java's dialect, or ProtocolError."""
        try:
            found = from_json(cls, dialect.loads(data), cls.__name__)
        except RecursionError as error:
            raise ProtocolError(f"{cls.__name__} is nested too deeply") from error
        if found is None:
            raise ProtocolError(f"{cls.__name__} is null, and not an object")
        return found


def to_json(value: Any) -> dict[str, Any]:
    """The body as plain values for `dialect.dumps`."""
    return {
        entry.wire_name: entry.write(item)
        for entry in _plan(type(value))
        if (item := getattr(value, entry.name)) is not None
    }


def from_json(kind: type[B], value: Any, path: str) -> B | None:
    """The body out of plain values, None for null; `path` names it in errors."""
    if type(value) is not dict and not isinstance(value, ObjectKey):
        _check_null(value, path, "an object")
        return None
    found: dict[str, Any] = {}
    for entry in _plan(kind):
        item = value.get(entry.wire_name, MISSING)
        if item is not MISSING:
            item = entry.read(item, f"{path}.{entry.wire_name}")
            if item is None:
                item = entry.null
        if item is not MISSING:
            found[entry.name] = item
        elif entry.is_required:
            raise ProtocolError(f"{path}.{entry.wire_name} is missing")
    return kind(**found)


def _check_null(value: Any, path: str, kind: str) -> None:
    """What is no value of this kind is null, or a text that means it."""
    if value is not None and not (type(value) is str and value in {"", "null"}):
        raise ProtocolError(f"{path}={shorten(value)} is not {kind}")


class _Entry(NamedTuple):
    name: str
    wire_name: str
    read: Read
    write: Write
    null: Any
    """What null stands for; MISSING for the default."""
    is_required: bool


def _planned(kind: Any) -> tuple[_Entry, ...]:
    """How this class is read and written, in the order of its names."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(sorted((_entry(one, hints[one.name]) for one in fields_of(kind)), key=lambda entry: entry.wire_name))


_plan: Callable[[Any], tuple[_Entry, ...]] = cache(_planned)


def _entry(one: Field[Any], hint: Any) -> _Entry:
    read, write = _converters(hint)
    is_required = one.default is MISSING and one.default_factory is MISSING
    name = one.metadata.get("wire") or camel(one.name)
    return _Entry(one.name, name, read, write, _NULLS.get(hint, MISSING), is_required)


def _converters(hint: Any) -> tuple[Read, Write]:
    if hint in _SCALARS:
        return _SCALARS[hint], _as_it_is
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {types.UnionType, Union}:
        (hint,) = (part for part in arguments if part is not type(None))
        return _converters(hint)
    if origin is Annotated:
        names = hint.__metadata__[0]
        return (lambda value, path: fastjson.enum_of(path, value, names)), _as_it_is
    if origin is tuple:
        return _tuple_converters(arguments[0])
    if origin is Mapping:
        return _mapping_converters(*arguments)
    if hint is MessageQueue:
        return read_queue, write_queue
    return (lambda value, path: from_json(hint, value, path)), to_json


def _tuple_converters(hint: Any) -> tuple[Read, Write]:
    """Null in a list is no item, as it is no entry in a map."""
    read, write = _converters(hint)
    kinds = _SINGLE.get(hint, {dict})

    def read_all(value: Any, path: str) -> Any:
        if type(value) is not list:
            if type(value) in kinds and value != "":
                value = [value]
            else:
                _check_null(value, path, "a list")
                return None
        if read is _text and {*map(type, value)} == {str}:  # the member list of a large group, above all
            return tuple(value)
        items = (read(item, f"{path}[]") for item in value)
        return tuple(item for item in items if item is not None)

    return read_all, lambda values: [write(value) for value in values]


def _mapping_converters(key_hint: Any, hint: Any) -> tuple[Read, Write]:
    read, write = _converters(hint)
    read_key, write_key = _KEYS[key_hint]

    def read_all(value: Any, path: str) -> Any:
        if type(value) is list and key_hint is MessageQueue:
            items = ((key, read(item, f"{path}[]")) for key, item in _pairs(value, path))
            return {key: item for key, item in items if item is not None}
        if type(value) is list and len(value) == 1 and type(value[0]) is dict:
            (value,) = value  # fastjson takes a list of one object for the map
        if type(value) is not dict:
            _check_null(value, path, "an object")
            return None
        pairs = ((read_key(key, path), read(item, f"{path}[]")) for key, item in value.items())
        return {key: item for key, item in pairs if key is not None and item is not None}

    return read_all, lambda values: {write_key(key): write(value) for key, value in values.items()}


def _pairs(value: list[Any], path: str) -> list[tuple[MessageQueue, Any]]:
    """Such a map as other serializers write it: `[[queue, value]]`, or `[{queue's parts, "offset":}]`."""
    pairs = []
    for item in value:
        if type(item) is list and len(item) == 2:
            pairs.append((_queue_key(item[0], path), item[1]))
        elif type(item) is dict and "offset" in item:
            pairs.append((_queue_key(item, path), item["offset"]))
        else:
            raise ProtocolError(f"{path}: {shorten(item)} is not a queue and its value")
    return pairs


def read_queue(value: Any, path: str) -> MessageQueue | None:
    """A queue as an object, in a value's place or in a key's. Without a number it is 0: Go's writer leaves that out."""
    if not isinstance(value, dict | ObjectKey):
        _check_null(value, path, "a queue")
        return None
    topic, broker = (_text(value.get(name), f"{path}.{name}") for name in ("topic", "brokerName"))
    if topic is None or broker is None:
        raise ProtocolError(f"{path}: {shorten(value)} is not a queue: it needs topic and brokerName")
    return MessageQueue(topic, broker, _int32(value.get("queueId"), f"{path}.queueId") or 0)


def write_queue(queue: MessageQueue) -> dict[str, Any]:
    return {"brokerName": queue.broker, "queueId": queue.number, "topic": queue.topic}


def _as_it_is(value: Any) -> Any:
    return value


def _text(value: Any, path: str) -> str | None:
    return value if type(value) is str else fastjson.text_of(value)


def _int32(value: Any, path: str) -> int | None:
    return fastjson.integer_of(value, path, 32)


def _bytes(value: Any, path: str) -> bytes | None:
    text = fastjson.text_of(value)
    if text is None or text == "null":
        return None
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (Base64Error, ValueError) as error:
        raise ProtocolError(f"{path}={shorten(value)} is not base64") from error


def _integer_key(key: Any, path: str) -> int | None:
    return fastjson.integer_of(key, f"{path} key ")


def _text_key(key: Any, path: str) -> str:
    if type(key) not in {str, int}:
        raise ProtocolError(f"{path} key {shorten(key)} is not a text")
    return str(key)


def _queue_key(key: Any, path: str) -> MessageQueue:
    queue = read_queue(key, path)
    if queue is None:
        raise ProtocolError(f"{path}: {shorten(key)} is not a queue")
    return queue


_SCALARS: dict[Any, Read] = {
    str: _text, bool: fastjson.boolean_of, int: fastjson.integer_of, Int32: _int32, float: fastjson.double_of,
    bytes: _bytes,
}  # fmt: skip
_KEYS: dict[Any, tuple[Read, Write]] = {
    str: (_text_key, _as_it_is),
    int: (_integer_key, _as_it_is),
    MessageQueue: (_queue_key, lambda queue: ObjectKey(write_queue(queue))),
}
_NULLS: dict[Any, Any] = {bool: False, int: 0, Int32: 0, float: 0.0}
_SINGLE: dict[Any, set[type]] = {str: {str, dict}, int: set(), Int32: {bool, int, Real, str, dict}}
"""Kinds of which one is read as the list of it; of others, one object."""
