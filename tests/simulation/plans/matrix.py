"""The matrix of ways against faults: which pairs a run brought together, and how often many runs did.

A pair counts when the fault really happened while a group that goes the way was at work: its handlers began with
messages before the fault and after it. What strikes one group counts for that group alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tests.simulation.facts import Fault, Started
from tests.simulation.faults.kinds import ALL_KINDS, NAMES
from tests.simulation.history import History
from tests.simulation.plans.ways import WAYS, ways_of
from tests.simulation.ways.facts import PopStarted
from tests.simulation.workload import Workload

Pair = tuple[str, str]
"""A way and a kind of fault."""
SHOWN_MAX = 99
WEATHER = frozenset(kind.name for kind in ALL_KINDS if kind.prepare is not None)


def met(workload: Workload, history: History, fired: Mapping[str, int]) -> frozenset[Pair]:
    """The pairs of one run."""
    began: dict[str, float] = {}
    ended: dict[str, float] = {}
    for start in (*history.of(Started), *history.of(PopStarted)):
        began.setdefault(start.group, start.at)
        ended[start.group] = start.at
    pairs: set[Pair] = set()
    for load in workload.groups:
        if load.name in began:
            struck = {
                fault.kind
                for fault in history.of(Fault)
                if fired.get(fault.kind)
                and fault.group in {"", load.name}
                and (fault.kind in WEATHER or began[load.name] <= fault.at <= ended[load.name])
            }
            pairs |= {(way, kind) for way in ways_of(workload, load) for kind in struck}
    return frozenset(pairs)


def never_met(counts: Mapping[Pair, int]) -> list[Pair]:
    """Those that make sense and did not come up."""
    return [
        (way, kind) for way in WAYS for kind in NAMES if kind not in WAYS[way].shuns and not counts.get((way, kind))
    ]


def lines(counts: Counter[Pair]) -> Iterator[str]:
    """A row per way, a column per kind; in how many seeds they met. Below, which pairs make no sense, and why."""
    wide = max(map(len, WAYS))
    yield " " * wide + "".join(f"{number:>3}" for number in range(1, len(NAMES) + 1))
    for way in WAYS:
        cells = (_cell(counts, way, kind) for kind in NAMES)
        yield f"{way:<{wide}}" + "".join(f"{cell:>3}" for cell in cells)
    yield ", ".join(f"{number} {kind}" for number, kind in enumerate(NAMES, start=1))
    for way in WAYS:
        yield from (f"- {way} and {kind}: {why}" for kind, why in WAYS[way].shuns.items())
    missing = never_met(counts)
    for way in WAYS:
        if kinds := [kind for each, kind in missing if each == way]:
            yield f"{way} never met {', '.join(kinds)}"
    yield f"matrix: ways={len(WAYS)} kinds={len(NAMES)} never_met={len(missing)}"


def _cell(counts: Counter[Pair], way: str, kind: str) -> str:
    if kind in WAYS[way].shuns:
        return "-"
    return str(min(counts[way, kind], SHOWN_MAX)) if counts[way, kind] else "."
