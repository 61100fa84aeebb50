"""The id of a log line: which page says what a warning or an error means. `framework-app explain ID` prints it."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from framework.catalogue.pages import ids_of_events

EXPLAINED = frozenset({"warning", "error", "critical"})


def read_ids() -> None:
    """Read them now: the first warning may be that no file can be opened any more."""
    ids_of_events()


def with_id(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Looked up by the event's name, so who logs need not know it; `EVENT: more` sums up lines of that event."""
    if event.get("level") in EXPLAINED:
        number = ids_of_events().get(str(event.get("event")).partition(": ")[0])
        if number is not None:
            event.setdefault("id", number)
    return event
