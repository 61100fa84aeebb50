"""Which settings are live, choose code, or keep a door shut: read from the marks at the schema's fields."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from framework.settings.consumers import ConsumerSettings
from framework.settings.fields import OnEdit, on_edit
from framework.settings.schema import AppSettings


def marked(mark: OnEdit) -> frozenset[tuple[str, ...]]:
    """Paths of the fields that have this mark; `*` stands for any group."""
    return frozenset((*_below(AppSettings, (), mark), *_below(ConsumerSettings, ("consumers", "*"), mark)))


def _below(model: type[BaseModel], path: tuple[str, ...], mark: OnEdit) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        if on_edit(field) is mark:
            yield (*path, name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _below(field.annotation, (*path, name), mark)
