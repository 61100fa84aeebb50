"""Walks over nested values and pydantic models: paths of values, models in a type, names of a field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Path: TypeAlias = tuple[str, ...]


def walk(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The value and all that is in it, each with its path; an item of a list has its number for a step."""
    yield path, value
    inside = (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
    )
    for key, each in inside:
        yield from walk(each, (*path, str(key)))


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a type names."""
    if isinstance(annotation, type) and not get_args(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models_in(argument)


def models_below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """The model, and those that its fields are of."""
    found = {model: None}
    waiting = [model]
    while waiting:
        for field in waiting.pop().model_fields.values():
            for kind in models_in(field.annotation):
                if kind not in found:
                    found[kind] = None
                    waiting.append(kind)
    yield from found


def keys_of(name: str, of: FieldInfo) -> set[str]:
    """What the field may be called where it is written; of a path into something else, the first step."""
    aliases = [of.alias, *getattr(of.validation_alias, "choices", [of.validation_alias])]
    return {name, *(step for each in aliases for step in getattr(each, "path", [each])[:1] if isinstance(step, str))}


def one_line(text: str) -> str:
    return " ".join(text.split())
