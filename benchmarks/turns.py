"""The harness of comparisons: cases and sides in turns, what the machine did meanwhile, a table and a file of JSON.

What is measured, and how, is the caller's; here a measurement is a function that answers figures by their names.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import Busy, Meter, commit, host
from benchmarks.plots import short

Figures = Mapping[str, float]
Measure = Callable[[str, str, int], Figures | None]
"""Of a case, a side and the number of its turn; None where this side has nothing to do with this case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measurement of one side."""

    who: str
    case: str
    figures: Figures
    busy: Busy

    def plain(self) -> dict[str, Any]:
        return {
            "who": self.who, "case": self.case, **self.figures, "load": self.busy.load, "stolen": self.busy.stolen,
        }  # fmt: skip

    def __str__(self) -> str:
        said = ", ".join(f"{name} {short(value)}" for name, value in self.figures.items())
        return f"{self.case} {self.who}: {said} (load {self.busy.load:.1f}, stolen {self.busy.stolen:.0%})"


def in_turns(cases: Sequence[str], sides: Sequence[str], runs: int, measure: Measure) -> list[Sample]:
    """Each side in turn in each case, and all of it so many times."""
    found = []
    for number in range(1, runs + 1):
        for case in cases:
            for who in sides:
                meter = Meter()
                figures = measure(case, who, number)
                if figures is None:
                    continue
                sample = Sample(who=who, case=case, figures=figures, busy=meter.read())
                print(f"turn {number}: {sample}", file=sys.stderr, flush=True)
                found.append(sample)
    return found


def medians(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """One row for each case and side, in the order of the first turn."""
    grouped: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        grouped.setdefault((sample.case, sample.who), []).append(sample)
    return [
        {
            "case": case,
            "who": who,
            "runs": len(of_one),
            **{name: statistics.median(each.figures[name] for each in of_one) for name in of_one[0].figures},
            "load": [min(each.busy.load for each in of_one), max(each.busy.load for each in of_one)],
            "stolen": [min(each.busy.stolen for each in of_one), max(each.busy.stolen for each in of_one)],
        }
        for (case, who), of_one in grouped.items()
    ]


def table(samples: Sequence[Sample]) -> str:
    """The medians, a line for each case and side."""
    lines = []
    for row in medians(samples):
        named = {name: value for name, value in row.items() if isinstance(value, float)}
        said = "  ".join(f"{name} {short(value):>9}" for name, value in named.items())
        load, stolen = row["load"], row["stolen"]
        lines.append(
            f"{row['case']:<18} {row['who']:<22} {said}  load {load[0]:.1f} to {load[1]:.1f}, "
            f"stolen up to {stolen[1]:.0%}, {row['runs']} runs"
        )
    return "\n".join(lines)


def write_json(path: Path, benchmark: str, samples: Sequence[Sample], settings: Mapping[str, Any]) -> None:
    content = {
        **heading(benchmark, settings),
        "runs": [sample.plain() for sample in samples],
        "medians": medians(samples),
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def heading(benchmark: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What every file of results begins with. Paths of this machine are not part of the settings."""
    return {
        "schema": 1,
        "benchmark": benchmark,
        "commit": commit(),
        "at": time.strftime("%Y-%m-%d", time.gmtime()),
        "host": host(),
        "settings": {name: value for name, value in settings.items() if not isinstance(value, Path)},
    }
