"""Every setting: its value as a file would write it, and where it was written. Secrets show as stars.

Knows neither files nor variables; `sources.py` has noted where a value came from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from framework.model import durations
from framework.model.allocation import Allocation
from framework.model.rate import Rate
from framework.model.subscription import Start
from framework.settings.hidden import PLUGINS
from framework.settings.models import Path
from framework.settings.schema import AppSettings
from framework.settings.secret import Secret
from framework.settings.secret_words import MASK, names_a_secret
from framework.settings.units import with_unit

DEFAULT = "default"
_OF_PLUGINS = ".".join(PLUGINS)


@dataclass(frozen=True, slots=True)
class Explained:
    """One setting."""

    name: str
    value: str
    place: str
    """File, line and column; a variable; an option; or `default`."""


def explained(settings: AppSettings, plugins: Mapping[str, type[BaseModel]] | None = None) -> list[Explained]:
    """Every setting in the order of the schema, with those of all groups that the settings name. `plugins` are the
    models of plugins that have settings.
    """
    rows = list(_rows(settings, (), settings))
    models = dict(plugins or {})
    if not models:
        return rows
    written = settings.plugins.settings
    rows = [row for row in rows if not row.name.startswith(f"{_OF_PLUGINS}.") and row.name != _OF_PLUGINS]
    for name in sorted({*models, *written}):
        here = (*PLUGINS, name)
        values = written.get(name) or {}
        rows += _of_plugin(models[name], values, here, settings) if name in models else _rows(values, here, settings)
    return rows


def _of_plugin(
    model: type[BaseModel], values: Mapping[str, Any], path: Path, settings: AppSettings
) -> Iterator[Explained]:
    """Written values as they were written, and the defaults of the others."""
    for name, field in model.model_fields.items():
        here, inner = (*path, name), next(iter(_models_of(field)), None)
        if name not in values:
            is_one = inner is field.annotation and inner is not model
            if inner is not None and is_one:
                yield from _of_plugin(inner, {}, here, settings)
            else:
                yield Explained(".".join(here), _default(here, field), "is missing" if field.is_required() else DEFAULT)
        elif inner is not None and isinstance(values[name], Mapping):
            one = inner is field.annotation
            for key, value in ((name, values[name]),) if one else values[name].items():
                there = here if one else (*here, key)
                yield from _of_plugin(inner, value if isinstance(value, Mapping) else {}, there, settings)
        else:
            yield from _rows(values[name], here, settings)
    for name, value in values.items():
        if name not in model.model_fields:
            yield from _rows(value, (*path, name), settings)


def _models_of(field: FieldInfo) -> list[type[BaseModel]]:
    kinds = (field.annotation, *get_args(field.annotation))
    return [kind for kind in kinds if isinstance(kind, type) and not get_args(kind) and issubclass(kind, BaseModel)]


def _default(path: Path, field: FieldInfo) -> str:
    if field.is_required():
        return ""
    value = field.get_default(call_default_factory=True, validated_data={})
    return spelled(str(value) if isinstance(value, PurePath) else value, path, field)


def _rows(
    value: Any, path: Path, settings: AppSettings, field: FieldInfo | None = None, *, is_written: bool = True
) -> Iterator[Explained]:
    if isinstance(value, BaseModel):
        for name, each in type(value).model_fields.items():
            there = name in value.model_fields_set
            yield from _rows(getattr(value, name), (*path, name), settings, each, is_written=there)
    elif isinstance(value, Mapping) and value:
        for name, each in value.items():
            yield from _rows(each, (*path, name), settings)
    else:
        shown = settings.hidden.shown(value, path) if field is None else value
        yield Explained(".".join(path), spelled(shown, path, field), _place(path, settings) if is_written else DEFAULT)


def _place(path: Path, settings: AppSettings) -> str:
    """Where it was written; a value inside a mapping from an option or variable has the place of the mapping."""
    places = (settings.place(*path[:length]) for length in range(len(path), 0, -1))
    return next((place for place in places if place is not None), DEFAULT)


def spelled(value: Any, path: Path, field: FieldInfo | None) -> str:
    """A value as a file would write it; the last step of the path tells whether it is a secret."""
    if isinstance(value, Secret) or any(names_a_secret(step) for step in path[-1:]):
        return MASK if value else '""'
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() if field is not None and (text := with_unit(value, field)) is not None:
            return text
        case Start(policy="age", ms=ms):
            return durations.to_text(ms)
        case Start(policy=policy):
            return policy if policy != "time" else f"{value.ms} ms after 1970"
        case Rate():
            return str(value)
        case Allocation(name=name, options=options):
            return name if not options else json.dumps({name: options}, default=str)
        case str():
            return value or '""'
        case _:
            return json.dumps(value, default=str)
