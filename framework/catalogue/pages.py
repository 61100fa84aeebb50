"""The pages of errors and log events, read from the two files beside this one when somebody asks for them.

Knows nothing of who raises or logs; a house test compares the sources with what stands here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

RETIRED = frozenset({"FA-A120", "FA-U106"})
"""Ids that had a page once. They are not used again: somebody's runbook may still name them."""
_HEADING = re.compile(r"^## (FA-[A-Z]\d{3}) (.+)$", re.MULTILINE)
_ROOM = re.compile(r"From `((?:framework|plugins)/\w+)`\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A row of `events.md`: one log event of one room. Without an id where it is never a warning or an error."""

    id: str
    name: str
    room: str
    levels: tuple[str, ...]
    when: str
    remedy: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What one id means: `title` in a few words, `text` in Markdown."""

    id: str
    title: str
    kind: str
    """`error`, or `log event`."""
    text: str


@cache
def pages() -> dict[str, Page]:
    """Every page by its id, in the order of ids."""
    found = {page.id: page for page in (*_errors(), *_of_events())}
    return dict(sorted(found.items()))


@cache
def events() -> tuple[Event, ...]:
    """Every row, in the order of the file."""
    return tuple(events_in(content("events.md")))


@cache
def ids_of_events() -> dict[str, str]:
    """The id of each log event that may be a warning or an error."""
    return {event.name: event.id for event in events() if event.id}


def content(name: str) -> str:
    """One of the files as it is."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _errors() -> Iterator[Page]:
    _, *parts = _HEADING.split(content("errors.md"))
    for at in range(0, len(parts), 3):
        yield Page(id=parts[at], title=parts[at + 1], kind="error", text=parts[at + 2].strip())


def events_in(text: str) -> Iterator[Event]:
    """The rows of a text such as `events.md`."""
    room = ""
    for line in text.splitlines():
        if found := _ROOM.fullmatch(line):
            room = found[1]
        elif line.startswith("| `"):
            name, number, levels, when, remedy, fields = [cell.strip() for cell in line.strip("|").split(" | ")]
            yield Event(
                id=number,
                name=name.strip("`"),
                room=room,
                levels=tuple(levels.split(", ")),
                when=when,
                remedy=remedy,
                fields=tuple(re.findall(r"`(\w+)`", fields)),
            )


def _of_events() -> Iterator[Page]:
    by_id: dict[str, list[Event]] = {}
    for event in events():
        if event.id:
            by_id.setdefault(event.id, []).append(event)
    for number, rows in by_id.items():
        text = "\n\n".join(_said(event) for event in rows)
        yield Page(id=number, title=f"`{rows[0].name}`", kind="log event", text=text)


def _said(event: Event) -> str:
    level = next(each for each in event.levels if each in {"error", "warning"})
    fields = " ".join(f"{field}=..." for field in (*event.fields, "id"))
    meant = f"{event.when[0].upper()}{event.when[1:]}."
    return f"{meant} Logged by `{event.room}`.\n\nShows: `{level} {event.name} {fields}`\n\n- {event.remedy}"
