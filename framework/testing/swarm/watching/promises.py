"""Promises: what a broker has said or shown to be stored, held against what the next start of it finds on the disk.

It looks at the tables of the box's memory each second, and knows nothing of how they are saved. What a table held
unchanged while two groups of writes were committed was in the second of them at the latest, whatever became of other
writes. What a request was answered for is stored at once. It only reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from framework.broker.server import Broker
from framework.broker.store.offsets import OffsetKey
from framework.broker.store.tables import SavedTable

GROUPS_UNTIL_SAVED = 2
"""One was under way when something changed, perhaps without it; the next has it."""
Place = tuple[str, str, Any]
"""Logical broker, table and key."""
NOTHING = object()


@dataclass(frozen=True, slots=True)
class _Look:
    groups: int
    """How many groups of writes this life of the broker had committed."""
    held: Mapping[Place, object]


@dataclass(slots=True)
class Promises:
    """One a run. Told when a broker runs, answers, ends and is back."""

    _looks: list[_Look] = field(default_factory=list)
    _answered: dict[Place, int] = field(default_factory=dict)
    _owed: dict[Place, object] = field(default_factory=dict)

    def look(self, broker: Broker) -> None:
        """It runs, and this is what it has."""
        if broker.nodes:
            self._looks.append(_Look(broker.nodes[0].store.writer.groups, dict(_held(broker))))

    def answered(self, broker: Broker, port: int, key: OffsetKey, offset: int) -> None:
        """Whoever committed this offset was told that it is stored."""
        for node in broker.nodes:
            if node.address.endswith(f":{port}"):
                self._answered[node.name, "offsets", key] = offset

    def ended(self, broker: Broker) -> None:
        """Its process is gone: note what its successor has to find."""
        if not broker.nodes:
            return  # it had not begun: what was owed before is owed still
        now, groups = dict(_held(broker)), broker.nodes[0].store.writer.groups
        sound = [look for look in self._looks if look.groups + GROUPS_UNTIL_SAVED <= groups]
        last = sound[-1].held if sound else {}
        self._owed = {place: value for place, value in last.items() if now.get(place, NOTHING) == value}
        for look in sound[:-1]:
            dropped = look.held.keys() - last.keys() - now.keys()
            self._owed.update(dict.fromkeys(dropped, NOTHING))
        self._owed.update(
            (place, offset) for place, offset in self._answered.items() if now.get(place, NOTHING) == offset
        )
        self._owed.update(_ends(broker))
        self._looks.clear()
        self._answered.clear()

    def forgotten(self, broker: Broker) -> Iterator[str]:
        """It is back: what it lacks or has otherwise, a line each."""
        found = {**dict(_held(broker)), **dict(_ends(broker))}
        for place, value in self._owed.items():
            there = found.get(place, NOTHING)
            if there == value or (place[1] == "ends" and isinstance(there, int) and there >= _number(value)):
                continue
            name, table, key = place
            had = "nothing" if value is NOTHING else value
            yield f"{name} had {had} in {table} for {key}, and has {'nothing' if there is NOTHING else there}"
        self._owed.clear()


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _held(broker: Broker) -> Iterator[tuple[Place, object]]:
    """Every entry of every table that is kept in memory whole."""
    for node in broker.nodes:
        tables: dict[str, SavedTable[Any, Any]] = {
            "topics": node.rules.topics,
            "groups": node.rules.groups,
            "offsets": node.offsets.table,
            "resets": node.offsets.resets,
            "progress": node.progress.table,
        }
        for name, table in tables.items():
            for key, value in table.items():
                yield (node.name, name, key), value


def _ends(broker: Broker) -> Iterator[tuple[Place, object]]:
    """Where each queue ends: what everybody was shown. One without a message, whose first did not fit, is not kept."""
    for node in broker.nodes:
        for queue in node.store.queues.all():
            if queue.broker == node.name and queue.end:
                yield (node.name, "ends", (queue.topic, queue.number)), queue.end
