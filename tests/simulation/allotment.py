"""Allotment: strategies that go by the names of members and brokers: their options, and which member may own a queue.

A queue without an owner here never gets one, whichever members are there: the program logs it, and its messages are not
handled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

QUEUES_MAX = 8
"""The highest number of queues that a topic is given in a run."""
BY_NAME = ("by_config", "machine_room", "nearby")
STRICT = ("by_config", "machine_room")
"""Those by which nobody else takes a queue, also where its owner is away."""
_NOBODY = "10.0.0.250@"
"""A member that never comes."""


def options(strategy: str, topic: str, brokers: Sequence[str], members: Sequence[str]) -> Any:
    """The strategy as settings write it; `members` is how client ids begin."""
    if strategy not in BY_NAME:
        return strategy
    if strategy == "machine_room":
        return {strategy: {"rooms": [_room(brokers[0])]}}
    if strategy == "nearby":
        rooms: dict[str, list[str]] = {}
        for broker in brokers:
            rooms.setdefault(_room(broker), []).append(broker)
        for number, member in enumerate(members):
            rooms[sorted(rooms)[number % len(rooms)]].append(member)
        return {strategy: {"rooms": rooms}}
    lines = [_NOBODY, *members]
    table: dict[str, list[str]] = {}
    for broker in brokers:
        for number in range(QUEUES_MAX):
            table.setdefault(lines[number % len(lines)], []).append(f"{topic}@{broker}:{number}")
    return {strategy: {"members": table}}


def allotted(
    strategy: str, topics: Sequence[str], brokers: Sequence[str], names: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Queue -> which of the machines of these names may own it once all are there. Of others, all may."""
    found: dict[str, tuple[str, ...]] = {}
    rooms = sorted({_room(broker) for broker in brokers})
    for broker in brokers:
        for number in range(QUEUES_MAX):
            for topic in topics:
                place = number % (len(names) + 1)
                if strategy == "machine_room" and _room(broker) != _room(brokers[0]):
                    found[f"{topic}@{broker}:{number}"] = ()
                elif strategy == "nearby":
                    room = rooms.index(_room(broker))
                    mine = tuple(name for at, name in enumerate(names) if at % len(rooms) == room)
                    found[f"{topic}@{broker}:{number}"] = mine or tuple(names)
                elif strategy == "by_config" and topic == topics[0]:
                    found[f"{topic}@{broker}:{number}"] = (names[place - 1],) if place else ()
    return found


def _room(broker: str) -> str:
    return broker.partition("@")[0]
