"""Promises: what a broker has said or shown to be stored, held against what the next start of it finds on the disk.

It looks at the tables of the box's memory each second, and knows nothing of how they are saved. What a table held
unchanged while two groups of writes were committed was in the second of them at the latest, whatever became of other
writes. What a request was answered for is stored at once. It only reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from framework.broker.node import Node
from framework.broker.server import Broker
from framework.broker.store.sent_back import GroupPlace
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
    changes: Mapping[tuple[str, str], int]
    """Logical broker and table -> how often it was changed."""


@dataclass(slots=True)
class Promises:
    """One a run. Told when a broker runs, answers, ends and is back."""

    _looks: list[_Look] = field(default_factory=list)
    _answered: dict[Place, int] = field(default_factory=dict)
    _owed: dict[Place, object] = field(default_factory=dict)
    _fallen: set[Place] = field(default_factory=set)
    """Offsets that went back in this life of the broker: to be what it was is not to have stayed."""

    def look(self, broker: Broker) -> None:
        """It runs, and this is what it has."""
        if broker.nodes:
            self._looks.append(_looked(broker))

    def answered(self, broker: Broker, port: int, key: GroupPlace, offset: int) -> None:
        """Whoever committed this offset was told that it is stored."""
        for node in broker.nodes:
            if node.address.endswith(f":{port}"):
                self._answered[node.name, "offsets", key] = offset

    def fell(self, name: str, key: GroupPlace) -> None:
        """A broker was told less than it had, or has lost it with its topic: what it answered is owed no more."""
        place = name, "offsets", key
        if place in self._answered or any(place in look.held for look in self._looks):
            self._fallen.add(place)
        self._answered.pop(place, None)

    def ended(self, broker: Broker) -> None:
        """Its process is gone: note what its successor has to find."""
        if not broker.nodes:
            return  # it had not begun: what was owed before is owed still
        now = _looked(broker)
        sound = [look for look in self._looks if look.groups + GROUPS_UNTIL_SAVED <= now.groups]
        if sound:
            since = self._looks[self._looks.index(sound[-1]) :]
            self._owed = dict(_unchanged(since, now, self._fallen))
            for look in sound[:-1]:
                dropped = look.held.keys() - now.held.keys()
                gone = {place for place in dropped if not any(place in each.held for each in since)}
                self._owed.update((place, NOTHING) for place in gone if _is_still(place, since[0], now, self._fallen))
        else:
            self._owed = {}
        self._owed.update(
            (place, offset) for place, offset in self._answered.items() if now.held.get(place, NOTHING) == offset
        )
        self._owed.update(_ends(broker))
        self._looks.clear()
        self._answered.clear()
        self._fallen.clear()

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


def _looked(broker: Broker) -> _Look:
    changes = {(node.name, name): table.changes for node in broker.nodes for name, table in _tables(node).items()}
    return _Look(broker.nodes[0].store.writer.groups, dict(_held(broker)), changes)


def _unchanged(since: Sequence[_Look], now: _Look, fallen: Collection[Place]) -> Iterator[tuple[Place, object]]:
    for place, value in now.held.items():
        if all(look.held.get(place, NOTHING) == value for look in since) and _is_still(place, since[0], now, fallen):
            yield place, value


def _is_still(place: Place, before: _Look, now: _Look, fallen: Collection[Place]) -> bool:
    """Whether it cannot have changed and changed back between two looks: most offsets go up, and other tables rest."""
    name, table, _ = place
    return (table == "offsets" and place not in fallen) or before.changes[name, table] == now.changes[name, table]


def _tables(node: Node) -> dict[str, SavedTable[Any, Any]]:
    return {
        "topics": node.rules.topics,
        "groups": node.rules.groups,
        "offsets": node.offsets.table,
        "resets": node.offsets.resets,
        "progress": node.progress.table,
    }


def _held(broker: Broker) -> Iterator[tuple[Place, object]]:
    """Every entry of every table that is kept in memory whole."""
    for node in broker.nodes:
        for name, table in _tables(node).items():
            for key, value in table.items():
                yield (node.name, name, key), value


def _ends(broker: Broker) -> Iterator[tuple[Place, object]]:
    """Where each queue ends: what everybody was shown. One without a message, whose first did not fit, is not kept."""
    for node in broker.nodes:
        for queue in node.store.queues.all():
            if queue.broker == node.name and queue.end:
                yield (node.name, "ends", (queue.topic, queue.number)), queue.end
