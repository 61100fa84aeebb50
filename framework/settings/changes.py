"""The differences between two settings, and which of them apply while the application runs.

Pure: it decides, `runtime/reload.py` acts. A change is live, waits for a restart, or is refused with the whole edit: a
reload never turns off a protection and never loads other code. The schema's fields say which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from framework.settings.explain import spelled
from framework.settings.fields import OnEdit, on_edit
from framework.settings.hidden import PLUGINS, Hidden
from framework.settings.schema import AppSettings


class Kind(Enum):
    LIVE = "live"
    RESTART = "restart"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One value that differs. Secrets show as stars."""

    path: tuple[str, ...]
    before: Any
    after: Any
    kind: Kind
    field: FieldInfo | None = None
    """Its field in the schema; None for a plugin's settings."""

    @property
    def name(self) -> str:
        return ".".join(self.path)

    def __str__(self) -> str:
        return f"{self.name}: {self._shown(self.before)} -> {self._shown(self.after)}"

    def _shown(self, value: Any) -> str:
        """As a settings file would write it; secrets as stars."""
        return "none" if value is None else spelled(value, self.path, self.field)


def changes(before: AppSettings, after: AppSettings) -> list[SettingChange]:
    """Every value that differs, in the order of the schema. A group without settings has the defaults."""
    found: list[SettingChange] = []
    hidden = before.hidden.joined(after.hidden)
    for section in type(before).model_fields:
        old, new = getattr(before, section), getattr(after, section)
        if section == "consumers":
            for group in sorted({*old, *new}):
                found += _parts(before.consumer(group), after.consumer(group), ("consumers", group), hidden)
        else:
            found += _parts(old, new, (section,), hidden)
    return found


def _parts(
    before: Any, after: Any, path: tuple[str, ...], hidden: Hidden, field: FieldInfo | None = None
) -> Iterator[SettingChange]:
    if before == after:
        return
    if isinstance(before, BaseModel) and type(before) is type(after):
        for name, inner in type(before).model_fields.items():
            yield from _parts(getattr(before, name), getattr(after, name), (*path, name), hidden, inner)
        return
    if path[: len(PLUGINS)] == PLUGINS:
        yield from _of_plugins(before, after, path, hidden)
        return
    yield SettingChange(path, before, after, _kind(field, after), field)


def _of_plugins(before: Any, after: Any, path: tuple[str, ...], hidden: Hidden) -> Iterator[SettingChange]:
    """Key by key: they are plain values, and one secret among them must not hide or show the others."""
    old, new = ({} if each is None else each for each in (before, after))
    if isinstance(old, Mapping) and isinstance(new, Mapping) and (old or new):
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                yield from _of_plugins(old.get(key), new.get(key), (*path, key), hidden)
        return
    yield SettingChange(path, hidden.shown(before, path), hidden.shown(after, path), Kind.RESTART)


def _kind(field: FieldInfo | None, after: Any) -> Kind:
    match on_edit(field):
        case OnEdit.LIVE:
            return Kind.LIVE
        case OnEdit.CODE:
            return Kind.REFUSED
        case OnEdit.GUARD if not after:
            return Kind.REFUSED
        case _:
            return Kind.RESTART


def taken_over(running: AppSettings, wanted: list[SettingChange]) -> AppSettings:
    """The running settings with the live changes applied; the other changes are not in force yet."""
    settings = running
    for change in wanted:
        if change.kind is Kind.LIVE:
            settings = _with(settings, change)
    return settings


def _with(settings: AppSettings, change: SettingChange) -> AppSettings:
    section, *_, field = change.path
    if section == "consumers":
        group = change.path[1]
        of_group = settings.consumer(group).model_copy(update={field: change.after})
        return settings.model_copy(update={"consumers": {**settings.consumers, group: of_group}})
    part = getattr(settings, section).model_copy(update={field: change.after})
    return settings.model_copy(update={section: part})
