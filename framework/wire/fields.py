"""Typed headers to and from the wire's map of texts.

A header is a subclass of `Header`; a request's says its code. `snake_case` becomes `camelCase`; a field whose wire name
is another says so with `wire("name")`. An int is 64 bits wide, an `Int32` 32. A field without a default must be there.
Unknown fields are ignored: peers of other versions, zones and namespaces add their own.

Owns names, types and ranges. It knows no header in particular.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field
from dataclasses import fields as fields_of
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from framework.errors import ProtocolError, shorten
from framework.wire.command import RemotingCommand

H = TypeVar("H")

Int32: TypeAlias = Annotated[int, 32]

_WIRE_NAME = "wire"


def wire(name: str, **options: Any) -> Any:
    """A dataclass field whose name on the wire does not follow from its own."""
    return field(metadata={_WIRE_NAME: name}, **options)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(wire,))
class Fields:
    """A value of named fields. Its subclasses are as `dataclass(frozen=True, kw_only=True)` at a third of its cost.

    There are some two hundred such classes, and what a dataclass compiles for each made up a third of the start of the
    built-in broker. So they share their comparison and their repr, and only the type checker keeps fields from being
    set.
    """

    def __init_subclass__(cls) -> None:
        dataclass(kw_only=True, eq=False, repr=False)(cls)

    def __eq__(self, other: object) -> bool:
        return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self) -> int:
        return hash(_values(self))

    def __repr__(self) -> str:
        shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields_of(self))  # type: ignore[arg-type]
        return f"{type(self).__qualname__}({shown})"


class Header(Fields):
    """The fields of an answer, or of a request."""


class RequestHeader(Header):
    """A header of one kind of request: `class MembersRequest(RequestHeader, code=38)`."""

    CODE: ClassVar[int]

    def __init_subclass__(cls, *, code: int = -1) -> None:
        super().__init_subclass__()
        cls.CODE = code


@dataclass_transform(frozen_default=True)
def plain_value(kind: type[H]) -> type[H]:
    """As `dataclass(frozen=True, slots=True)`, at a third of what each instance of that costs, for what a send makes.

    Nothing but the type checker keeps its fields from being set.
    """
    return dataclass(slots=True, unsafe_hash=True)(kind)


def command_for(header: RequestHeader, body: bytes = b"", *, code: int | None = None) -> RemotingCommand:
    """A request of this header. Its class says which code, unless several requests share the header (`code`)."""
    return RemotingCommand(header.CODE if code is None else code, to_fields(header), body)


def to_fields(header: object) -> dict[str, str]:
    """The wire's map. What is None is left out, as Java leaves out null."""
    texts: dict[str, str] = {}
    for name, wire_name, _, is_bool, _ in _plan(type(header)):
        value = getattr(header, name)
        if value is not None:
            texts[wire_name] = ("true" if value else "false") if is_bool else str(value)
    return texts


def from_fields(kind: type[H], fields: Mapping[str, str]) -> H:
    """The header that the map holds, or ProtocolError naming the header, the field and the value."""
    values: dict[str, Any] = {}
    for name, wire_name, read, _, is_required in _plan(kind):
        text = fields.get(wire_name)
        if text is None:
            if is_required:
                raise ProtocolError(f"{kind.__name__}: field {wire_name} is missing")
        elif read is _text:
            values[name] = text
        else:
            try:
                values[name] = read(text)
            except ValueError as error:
                raise ProtocolError(f"{kind.__name__}: field {wire_name}={shorten(text)} {error}") from error
    return kind(**values)


class _Entry(NamedTuple):
    name: str
    wire_name: str
    read: Callable[[str], Any]
    is_bool: bool
    is_required: bool


def _values(value: Any) -> tuple[object, ...]:
    return tuple(getattr(value, one.name) for one in fields_of(value))


def _planned(kind: Any) -> tuple[_Entry, ...]:
    """How this class is read and written."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_entry(one, hints[one.name]) for one in fields_of(kind))


_plan: Callable[[Any], tuple[_Entry, ...]] = cache(_planned)


def _entry(one: Field[Any], hint: Any) -> _Entry:
    plain = _without_none(hint)
    name = one.metadata.get(_WIRE_NAME) or camel(one.name)
    is_required = one.default is MISSING and one.default_factory is MISSING
    return _Entry(one.name, name, _READERS[plain], plain is bool, is_required)


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in {types.UnionType, Union}:
        (hint,) = (part for part in get_args(hint) if part is not type(None))
    return hint


def camel(name: str) -> str:
    """`queue_offset` as Java would call it."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def int_of(text: str, bits: int) -> int:
    """A whole number as Java's parsers take it: no blanks, underscores or other alphabets' digits."""
    digits = text[1:] if text[:1] in {"-", "+"} else text
    if len(digits) > 20 or not (digits.isascii() and digits.isdecimal()):
        raise ValueError("is not an integer")
    value = int(text)
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise ValueError(f"is outside {bits} bits")
    return value


def _int64(text: str) -> int:
    # Short and nothing but digits, as nearly all are: no more to be asked.
    return int(text) if len(text) < 19 and text.isdecimal() and text.isascii() else int_of(text, 64)


def _int32(text: str) -> int:
    return int(text) if len(text) < 10 and text.isdecimal() and text.isascii() else int_of(text, 32)


def _bool(text: str) -> bool:
    return text.lower() == "true"  # Boolean.parseBoolean: whatever else is false


def _text(text: str) -> str:
    return text


_READERS: dict[Any, Callable[[str], Any]] = {int: _int64, Int32: _int32, bool: _bool, str: _text}
