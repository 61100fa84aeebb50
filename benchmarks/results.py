"""The files of results as docs/performance.md needs them: medians of each case and side, and ratios over Java's."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NOT_FIGURES = frozenset({"who", "case", "load", "stolen"})
LOAD_MOST, STOLEN_MOST = 6.0, 0.1
"""Above these a file says how it was, and settles nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one side came to in one case."""

    case: str
    who: str
    runs: int
    figures: Mapping[str, float]
    """Medians."""
    load: float
    """The most that was seen, and so with what was stolen."""
    stolen: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """One file."""

    name: str
    benchmark: str
    commit: str
    at: str
    host: Mapping[str, Any]
    rows: tuple[Row, ...]

    @property
    def load(self) -> float:
        return max(row.load for row in self.rows)

    @property
    def stolen(self) -> float:
        return max(row.stolen for row in self.rows)

    @property
    def is_settled(self) -> bool:
        """Whether the machine was quiet enough for a figure to hold."""
        return self.load <= LOAD_MOST and self.stolen <= STOLEN_MOST

    def of(self, who: str, figure: str, case: str = "") -> float | None:
        found = [row.figures.get(figure) for row in self.rows if (row.who, row.case) == (who, case)]
        return found[0] if found else None

    def ratio(self, figure: str, case: str = "", *, ours: str = "ours", java_case: str | None = None) -> float | None:
        """Ours over Java's, of one case, or of two."""
        mine = self.of(ours, figure, case)
        theirs = self.of("java", figure, case if java_case is None else java_case)
        return mine / theirs if mine is not None and theirs else None

    def cases(self) -> list[str]:
        return list(dict.fromkeys(row.case for row in self.rows))


def read(path: Path) -> Results:
    content = json.loads(path.read_text())
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in content["runs"]:
        grouped.setdefault((run.get("case", ""), run["who"]), []).append(run)
    return Results(
        name=path.stem,
        benchmark=content["benchmark"],
        commit=content["commit"],
        at=content["at"],
        host=content["host"],
        rows=tuple(_row(case, who, runs) for (case, who), runs in grouped.items()),
    )


def read_all(folder: Path) -> dict[str, Results]:
    return {path.stem: read(path) for path in sorted(folder.glob("*.json"))}


def _row(case: str, who: str, runs: list[dict[str, Any]]) -> Row:
    names = [name for name in runs[0] if name not in NOT_FIGURES]
    return Row(
        case=case,
        who=who,
        runs=len(runs),
        figures={name: statistics.median(run[name] for run in runs) for name in names},
        load=max(run["load"] for run in runs),
        stolen=max(run.get("stolen", 0.0) for run in runs),
    )
