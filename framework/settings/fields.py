"""What sections share, and types of single settings: how each is read from text, which values it allows, and what an
edit of it does.

Owns no setting. Text that cannot be read raises ValueError with an example.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, WithJsonSchema, model_validator
from pydantic.fields import FieldInfo

from framework.model import durations
from framework.model.allocation import Allocation, written
from framework.model.rate import PATTERN as RATE_PATTERN
from framework.model.rate import Rate, to_rate
from framework.model.reserved import GROUP_LENGTH_MAX, TOPIC_LENGTH_MAX, is_legal
from framework.model.subscription import Start
from framework.settings import broker_limits
from framework.settings.units import DURATION_PATTERN

T = TypeVar("T")


class Section(BaseModel):
    """What all sections share: they are frozen, and an unknown key is an error."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        hide_input_in_errors=True,
        arbitrary_types_allowed=True,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, value: Any) -> Any:
        """`tls:` with no value means the default, as for an empty list or mapping. A single value that is empty is an
        error, unless its field allows it.
        """
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            return value
        fields = cls.model_fields
        return {key: each for key, each in value.items() if each is not None or not _is_collection(fields.get(key))}


def _is_collection(field: FieldInfo | None) -> bool:
    if field is None or field.is_required() or any(hasattr(each, "min_length") for each in field.metadata):
        return False
    kind = field.annotation
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return get_origin(kind) in {tuple, Mapping}


class OnEdit(Enum):
    """What an edit of a field does while the application runs. Where a field says nothing, it waits for a restart."""

    LIVE = "live"
    CODE = "code"
    GUARD = "guard"


Live = Annotated[T, OnEdit.LIVE]
"""An edit acts within a second."""
Code = Annotated[T, OnEdit.CODE]
"""Chooses the code that runs: an edit is refused, in either direction."""
Guard = Annotated[T, OnEdit.GUARD]
"""Keeps a door shut: an edit that sets it to false or empty is refused; any other waits for a restart."""


def on_edit(field: FieldInfo | None) -> OnEdit | None:
    """What stands at the field; None where nothing does."""
    return next((each for each in (field.metadata if field else ()) if isinstance(each, OnEdit)), None)


NAMES_A_FILE = object()
FileName = Annotated[str, NAMES_A_FILE]
"""A file or folder. What a settings file names is beside that file, unless it is absolute or begins with `~`."""


def several(value: Any) -> Any:
    """`a, b` and `a;b` mean a list of two, as the environment and the command line must write it."""
    if isinstance(value, str):
        return [part for part in re.split(r"[\s,;]+", value) if part]
    return value


_ADDRESS = re.compile(r"(?:https?://)?(?:\[[\w:.%-]+\]|[\w.-]+):(\d{1,5})/?", re.ASCII)


def _address(text: str) -> str:
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found[1]) < 65536:
        example = "[::1]:9876" if text.count(":") > 1 and "//" not in text else "127.0.0.1:9876"
        raise ValueError(f"{text!r} is not an address; write host:port, such as {example}")
    return text


TOKEN_LENGTH_MAX = 4096
"""Signs of a token: a request's header has 16 KiB, all in all."""
TOKEN_LENGTH_MIN = 20
"""Signs of a token that opens the dashboard: whoever guesses has no other lock before them."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _network(text: str) -> str:
    ipaddress.ip_network(text)
    return text


def _named(what: str, length_max: int) -> AfterValidator:
    def checked(text: str) -> str:
        if not is_legal(text, length_max):
            raise ValueError(f"a {what}'s name has 1 to {length_max} of the characters A-Z a-z 0-9 _ - % |")
        return text

    return AfterValidator(checked)


def _broker_limits(values: Mapping[str, str]) -> Mapping[str, str]:
    broker_limits.limits(values)
    return values


Address = Annotated[str, AfterValidator(_address)]
Listen = Annotated[str, AfterValidator(lambda text: text and _address(text))]
"""An address of this machine; empty for none."""
Readable = Literal["metrics", "probes", "snapshot"]
Network = Annotated[str, AfterValidator(_network)]
GroupName = Annotated[str, _named("group", GROUP_LENGTH_MAX)]
TopicName = Annotated[str, _named("topic", TOPIC_LENGTH_MAX)]
_LIST_OR_TEXT = WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]})
Texts = Annotated[tuple[str, ...], BeforeValidator(several), _LIST_OR_TEXT]
Addresses = Annotated[tuple[Address, ...], BeforeValidator(several), _LIST_OR_TEXT]
Networks = Annotated[tuple[Network, ...], BeforeValidator(several), _LIST_OR_TEXT]
Keys = Annotated[Mapping[str, Any], BeforeValidator(lambda value: {} if value is None else value)]
"""A plugin's settings before its model reads them."""
BrokerLimits = Annotated[Mapping[str, str], AfterValidator(_broker_limits)]
_LEVEL = BeforeValidator(lambda value: value.lower() if isinstance(value, str) else value)
Level = Annotated[Literal["debug", "info", "warning", "error"], _LEVEL]


def _start(value: Any) -> Any:
    if isinstance(value, Start):  # from Python code
        return value
    text = value if isinstance(value, str) else ""
    if text in {"first", "last"}:
        return Start(text)  # type: ignore[arg-type]  # narrowed by the set, which mypy does not follow
    with suppress(ValueError):
        return Start("age", durations.to_ms(text))
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("write first, last, an age such as 30m, or a time such as 2026-11-21T09:30:00Z") from None
    if instant.tzinfo is None:
        raise ValueError(f"a time needs its zone: write {value}Z or {value}+08:00")
    return Start("time", round(instant.timestamp() * 1000))


_INSTANT = r"^\d{4}-\d{2}-\d{2}.*(Z|[+-]\d{2}(:?\d{2})?)$"
_START = WithJsonSchema(
    {
        "anyOf": [
            {"enum": ["first", "last"]},
            {"type": "string", "pattern": DURATION_PATTERN},
            {"type": "string", "pattern": _INSTANT},
        ]
    }
)
_ALLOCATION = WithJsonSchema(
    {"anyOf": [{"type": "string", "minLength": 1}, {"type": "object", "minProperties": 1, "maxProperties": 1}]}
)


def _rate(value: Any) -> Any:
    if value is None or isinstance(value, Rate):  # the latter from Python code
        return value
    if not isinstance(value, str):
        raise ValueError("write 100/s, 30/m or 1000/h")  # noqa: TRY004  # pydantic takes a ValueError for the user's mistake
    return to_rate(value)


StartSetting = Annotated[Start, BeforeValidator(_start), _START]
RateSetting = Annotated[Rate, BeforeValidator(_rate), WithJsonSchema({"type": "string", "pattern": RATE_PATTERN})]
AllocationSetting = Annotated[Allocation, BeforeValidator(written), _ALLOCATION]
