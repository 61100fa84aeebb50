"""What a comparison of consumers comes to: single runs, medians and ratios, as a table and as JSON (schema 1)."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.turns import Sample, heading

FIGURES = ("rate", "cpu_per_message_us", "peak_memory_mb")
RELIABILITY_BAR = 1.1
OBSERVED_BAR = 0.95
"""Of the rate that is left when somebody watches."""
RATIO_NAMES = {"rate": "rate", "cpu_per_message_us": "cpu_per_message", "peak_memory_mb": "peak_memory"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of one side."""

    who: str
    """`ours` or `java`; where features are compared, the handler's name."""
    rate: float
    """Messages a second."""
    cpu_per_message_us: float
    peak_memory_mb: float
    load: float
    """The machine's load in the minute before."""
    stolen: float = 0.0
    """The share of the machine that its host gave to others meanwhile."""

    @classmethod
    def of(cls, sample: Sample) -> Run:
        return cls(who=sample.who, load=sample.busy.load, stolen=sample.busy.stolen, **sample.figures)

    def __str__(self) -> str:
        return (
            f"{self.who:8} {self.rate:10,.0f} msg/s {self.cpu_per_message_us:6.2f} us CPU a message "
            f"{self.peak_memory_mb:6.0f} MB  load {self.load:.1f}, stolen {self.stolen:.0%}"
        )


def medians(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """`ours` and `java` -> figure -> median; a side that did not run has no figures."""
    found: dict[str, dict[str, float]] = {"ours": {}, "java": {}, **{run.who: {} for run in runs}}
    for who, figures in found.items():
        for name in FIGURES:
            if values := [getattr(run, name) for run in runs if run.who == who]:
                figures[name] = statistics.median(values)
    return found


def ratios(runs: Sequence[Run]) -> dict[str, float]:
    """Our median over Java's; nothing when only one side ran."""
    both = medians(runs)
    if not both["ours"] or not both["java"]:
        return {}
    return {RATIO_NAMES[name]: both["ours"][name] / both["java"][name] for name in FIGURES}


def features(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """Handler -> its processor time a message over Java's, and what it adds to the plain async one's, in us."""
    each = {who: figures["cpu_per_message_us"] for who, figures in medians(runs).items() if figures}
    java, plain = each.pop("java", None), each.get("async")
    if plain is None:
        return {}
    over = {} if java is None else {who: {"cpu_over_java": cpu / java} for who, cpu in each.items()}
    return {who: {**over.get(who, {}), "adds_us": cpu - plain} for who, cpu in each.items()}


def reliability(runs: Sequence[Run]) -> float | None:
    """Processor time a message with a store of progress and a limit for handlers over that without; None where none."""
    both = medians(runs)
    if not both.get("bare") or not both.get("kept"):
        return None
    return both["kept"]["cpu_per_message_us"] / both["bare"]["cpu_per_message_us"]


def observed(runs: Sequence[Run]) -> dict[str, float]:
    """Each figure of the side that is watched over that of the other; empty where they were not compared."""
    both = medians(runs)
    if not both.get("unobserved") or not both.get("observed"):
        return {}
    return {RATIO_NAMES[name]: both["observed"][name] / both["unobserved"][name] for name in FIGURES}


def table(runs: Sequence[Run]) -> str:
    lines = [str(run) for run in runs]
    for who, figures in medians(runs).items():
        if figures:
            lines.append(f"median {_median(who, runs, figures)}")
    if compared := ratios(runs):
        lines.append("ours over java: " + ", ".join(f"{name} {value:.2f}x" for name, value in compared.items()))
    for who, found in features(runs).items():
        java = f", {found['cpu_over_java']:.2f}x Java's" if "cpu_over_java" in found else ""
        lines.append(f"{who}: adds {found['adds_us']:.2f} us CPU a message{java}")
    if (kept := reliability(runs)) is not None:
        lines.append(f"kept over bare: {kept:.3f}x the CPU a message (bar {RELIABILITY_BAR:.2f})")
    if watched := observed(runs):
        told = ", ".join(f"{name} {value:.3f}x" for name, value in watched.items())
        lines.append(f"observed over unobserved: {told} (bar {OBSERVED_BAR:.2f} of the rate)")
    return "\n".join(lines)


def _median(who: str, runs: Sequence[Run], figures: Mapping[str, float]) -> Run:
    busiest = {name: max(getattr(run, name) for run in runs) for name in ("load", "stolen")}
    return Run(who=who, **busiest, **figures)


def write_json(path: Path, benchmark: str, runs: Sequence[Run], settings: Mapping[str, Any]) -> None:
    content = {
        **heading(benchmark, settings),
        "runs": [asdict(run) for run in runs],
        "medians": medians(runs),
        "ratios": ratios(runs),
        **({"features": compared} if (compared := features(runs)) else {}),
        **({"observed": watched} if (watched := observed(runs)) else {}),
        **({"reliability": kept} if (kept := reliability(runs)) is not None else {}),
    }
    path.write_text(json.dumps(content, indent=2) + "\n")
