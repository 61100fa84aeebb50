"""Which mutants a base draws, spread over rooms and operators, and which are known to be no mistake."""

from __future__ import annotations

import math
import random
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.mutation.operators import Mutant, compiles, mutants_of

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True, slots=True)
class Room:
    """Where mistakes are put in, and the tests that answer for it."""

    name: str
    folders: tuple[str, ...]
    tests: tuple[str, ...]
    """Its mirror first, then the rooms that hold what several of them do together."""
    without: tuple[str, ...] = ()


STORIES = "tests/scenarios"
ROOMS = (
    Room("core", ("framework/core",), ("tests/core", "tests/services", STORIES)),
    Room("services", ("framework/services",), ("tests/services", STORIES, "tests/runtime")),
    Room("runtime", ("framework/runtime",), ("tests/runtime", STORIES)),
    Room("client", ("framework/client",), ("tests/client", "tests/services", STORIES)),
    Room("net", ("framework/net",), ("tests/net", "tests/hostile")),
    Room("wire", ("framework/wire",), ("tests/wire", "tests/golden", "tests/hostile")),
    Room("broker", ("framework/broker",), ("tests/broker",), without=("framework/broker/store",)),
    Room("broker/store", ("framework/broker/store",), ("tests/broker",)),
    Room("plugins/audit", ("plugins/audit/framework_audit",), ("plugins/audit/tests",)),
    Room("plugins/otel", ("plugins/otel/framework_otel",), ("plugins/otel/tests",)),
    Room("plugins/outbox", ("plugins/outbox/framework_outbox",), ("plugins/outbox/tests",)),
    Room("plugins/spark", ("plugins/spark/framework_spark",), ("plugins/spark/tests",)),
)
NAMES = tuple(room.name for room in ROOMS)
AT_HEART = frozenset({"core", "services", "runtime", "broker/store"})
"""Where seeds alone must find most."""


def room_of(file: str) -> Room:
    """Of two that hold it, the one that stands further in."""
    return next(room for room in ROOMS if _is_in(room, file))


def _is_in(room: Room, file: str) -> bool:
    return file.startswith(tuple(f"{each}/" for each in room.folders)) and not file.startswith(
        tuple(f"{each}/" for each in room.without)
    )


def files_of(room: Room, root: Path = ROOT) -> list[str]:
    found = (path.relative_to(root).as_posix() for each in room.folders for path in (root / each).rglob("*.py"))
    return sorted(file for file in found if _is_in(room, file))


def draw(count: int, base: int, *, rooms: Iterable[str] = (), root: Path = ROOT) -> list[Mutant]:
    """A larger count begins with the same mutants. A room's share grows with the root of what it offers."""
    named = set(rooms)
    chosen = [room for room in ROOMS if not named or room.name in named]
    offers = {room.name: _offered(room, root) for room in chosen}
    weights = {name: math.sqrt(len(offer)) for name, offer in offers.items() if offer}
    streams = {name: _one_after_another(offers[name], base, name, root) for name in weights}
    taken = dict.fromkeys(weights, 0)
    found: list[Mutant] = []
    while streams and len(found) < count:
        name = min(streams, key=lambda each: ((taken[each] + 1) / weights[each], each))
        mutant = next(streams[name], None)
        if mutant is None:
            del streams[name]
            continue
        taken[name] += 1
        found.append(mutant)
    return found


@cache
def _offered(room: Room, root: Path) -> list[Mutant]:
    return [mutant for file in files_of(room, root) for mutant in mutants_of(file, (root / file).read_bytes())]


def _one_after_another(offer: list[Mutant], base: int, name: str, root: Path) -> Iterator[Mutant]:
    """Shuffled. An operator's turn comes by the root of how often it applies: negations would drown the rest."""
    chance = random.Random(f"{base}/{name}")
    by_operator: defaultdict[str, list[Mutant]] = defaultdict(list)
    for mutant in offer:
        by_operator[mutant.operator].append(mutant)
    for mutants in by_operator.values():
        chance.shuffle(mutants)
    weights = {operator: math.sqrt(len(mutants)) for operator, mutants in sorted(by_operator.items())}
    while by_operator:
        (operator,) = chance.choices(sorted(by_operator), [weights[each] for each in sorted(by_operator)])
        mutant = by_operator[operator].pop()
        if not by_operator[operator]:
            del by_operator[operator]
        if compiles(mutant.put_into((root / mutant.file).read_bytes())):
            yield mutant


def equivalents(path: Path = EQUIVALENT) -> dict[str, str]:
    """Key of a mutant -> why the program does the same with it."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", [])
    found = {each["mutant"]: each["why"] for each in entries}
    assert len(found) == len(entries), "a mutant is judged twice"
    return found


def strangers(known: Iterable[str], root: Path = ROOT) -> list[str]:
    """Keys of mutants that the source no longer offers: the place has changed, and must be judged again."""
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    for key in known:
        wanted[key.partition("::")[0]].add(key)
    lost: list[str] = []
    for file, keys in wanted.items():
        path = root / file
        there = {mutant.key for mutant in mutants_of(file, path.read_bytes())} if path.exists() else set()
        lost += sorted(keys - there)
    return lost
