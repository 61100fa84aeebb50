"""pydantic's errors in this project's words: the place, what was found, what is allowed, the nearest name.

Knows models only as pydantic's; `schema.py` knows which settings exist.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from framework.errors import ConfigurationError, nearest, shorten
from framework.mistakes import UnknownKey, WrongValue
from framework.settings.hidden import Hidden, without_passwords
from framework.settings.models import Path, keys_of, models_in
from framework.settings.secret_words import SECRET_WORDS
from framework.settings.units import with_unit

_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "greater than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}
Places: TypeAlias = Mapping[Path, str]
"""Path of a value -> where it was written."""


def translated(
    error: ValidationError,
    kind: type[BaseModel],
    places: Places,
    prefix: Path = (),
    hidden: Hidden | None = None,
) -> list[ConfigurationError]:
    """One ConfigurationError per error of pydantic, in its order."""
    return [_mistake(detail, kind, places, prefix, hidden or Hidden()) for detail in error.errors(include_url=False)]


def without_mistaken(kind: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values without those that the model rejects; a list is left out whole."""
    kept: dict[str, Any] = deepcopy(dict(values))
    try:
        kind.model_validate(values)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            _leave_out(kept, detail["loc"])
    return kept


def _leave_out(values: dict[str, Any], path: tuple[int | str, ...]) -> None:
    level: Any = values
    for at, step in enumerate(path):
        if not isinstance(level, dict) or step not in level:
            return  # what is around it has gone for another reason
        following = level[step]
        if at + 1 == len(path) or not isinstance(following, dict) or path[at + 1] not in following:
            del level[step]
            return
        level = following


def _mistake(
    detail: ErrorDetails, kind: type[BaseModel], places: Places, prefix: Path, hidden: Hidden
) -> ConfigurationError:
    inner = tuple(str(step) for step in detail["loc"] if step != "[key]")
    path = (*prefix, *inner)
    dotted, place = ".".join(path), place_of(places, path)
    is_unknown = detail["type"] == "extra_forbidden"
    if is_unknown:
        known = _keys_at(kind, inner[:-1])
        message = f"unknown key {path[-1]!r} in {'.'.join(path[:-1]) or 'the settings'}{nearest(path[-1], known)}"
        if "did you mean" not in message:
            message += f"; known here: {', '.join(sorted(known))}" if known else "; there are no keys here"
    else:
        reason, found = _bound(detail, kind, inner) or (_reason(detail), _found(detail, path, hidden))
        variables = hidden.sources(path)
        if variables:
            what = f"the value of {' and '.join(f'${each}' for each in variables)} does not fit"
            message = f"{dotted}: {what}: {hidden.without_values(reason, variables)}"
        else:
            message = f"{reason}{found}" if place == f"--set {dotted}" else f"{dotted}: {reason}{found}"
    return (UnknownKey if is_unknown else WrongValue)(message, place=place)


def _bound(detail: ErrorDetails, kind: type[BaseModel], path: Path) -> tuple[str, str] | None:
    """What is wrong with a duration or a size that is out of range, and what was found, in units that people write."""
    word = _BOUNDS.get(detail["type"])
    fields, _ = _at(kind, path)
    value = detail["input"]
    if word is None or not fields:
        return None
    name, text = word
    limit: int = detail["ctx"][name]
    shown = with_unit(limit, fields[0])
    found = with_unit(value, fields[0]) if isinstance(value, int) else shorten(str(value)).strip("'")
    return None if shown is None else (f"expected {text} {shown}", f", found {found}")


def _at(kind: type[BaseModel], path: Path) -> tuple[list[FieldInfo], list[type[BaseModel]]]:
    """The fields that this path may lead to, and the models in them; a mapping's own keys lead to its values' model."""
    fields: list[FieldInfo] = []
    models = [kind]
    for step in path:
        found = [each for model in models for name, each in model.model_fields.items() if step in keys_of(name, each)]
        if found:
            fields, models = found, [model for each in found for model in models_in(each.annotation)]
    return fields, models


def place_of(places: Places, path: Path) -> str | None:
    """Where the value was written, or what is around it: a missing key has no line of its own.

    Of the keys that one variable or option spells, the last alone has a place.
    """
    for length in range(len(path), 0, -1):
        if path[:length] in places:
            return places[path[:length]]
    return next((place for each, place in places.items() if each[: len(path)] == path), None)


def _reason(detail: ErrorDetails) -> str:
    if detail["type"] == "value_error":
        return str(detail["ctx"]["error"])
    text = detail["msg"]
    if detail["type"] == "model_type":
        value = detail["input"]
        if isinstance(value, str) and re.match(r"[\w-]+:\S", value):
            return "expected keys and values, with a space behind each ':'"
        if isinstance(value, str) and re.match(r"[\w-]+ \S", value):
            return "expected keys and values, with a ':' behind each key"
        return "expected keys and values"
    if detail["type"] == "too_short" and detail["ctx"]["actual_length"] == 0:
        return "expected at least one"
    for theirs, ours in (
        ("Input should be a valid mapping", "expected keys and values"),
        ("Input should be a valid dictionary", "expected keys and values"),
        ("Input should be a valid string", "expected a text"),
        ("Input should be a valid tuple", "expected a list"),
        ("Input should be a valid list", "expected a list"),
        ("Input should be a valid integer, unable to parse string as an integer", "expected a whole number"),
        ("Input should be a valid integer", "expected a whole number"),
        ("Input should be a valid number", "expected a number"),
        ("Input should be a valid boolean, unable to interpret input", "expected true or false"),
        ("Input should be a valid boolean", "expected true or false"),
        ("Input should be greater than or equal to", "expected at least"),
        ("Input should be less than or equal to", "expected at most"),
        ("Input should be", "expected"),
        ("Field required", "is missing"),
    ):
        if text.startswith(theirs):
            return ours + text.removeprefix(theirs)
    return text


def _found(detail: ErrorDetails, path: Path, hidden: Hidden) -> str:
    """What stands there, unless it may be a secret, or the reason has said it."""
    value = detail["input"]
    if detail["type"] in {"value_error", "missing"} or any(SECRET_WORDS.search(step) for step in path):
        return ""
    if value is None:
        return ", found nothing"
    if hidden.covers(path):
        return ""
    if isinstance(value, Mapping):
        return ", found keys and values"
    if isinstance(value, list | tuple):
        return ", found a list" if value else ", found an empty list"
    return f", found {shorten(without_passwords(value) if isinstance(value, str) else value)}"


def _keys_at(kind: type[BaseModel], path: Path) -> list[str]:
    """What may be written at this path."""
    _, models = _at(kind, path)
    return [
        key
        for model in models
        for name, each in model.model_fields.items()
        for key in sorted(keys_of(name, each) - {name}) or [name]
    ]
