"""What a comparison of consumers comes to: single runs, medians and ratios, as a table and as JSON (schema 1)."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.interop import jars

FIGURES = ("rate", "cpu_per_message_us", "peak_memory_mb")
RELIABILITY_BAR = 1.1
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

    def __str__(self) -> str:
        return (
            f"{self.who:8} {self.rate:10,.0f} msg/s {self.cpu_per_message_us:6.2f} us CPU a message "
            f"{self.peak_memory_mb:6.0f} MB  load {self.load:.1f}"
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


def table(runs: Sequence[Run]) -> str:
    lines = [str(run) for run in runs]
    for who, figures in medians(runs).items():
        if figures:
            lines.append(f"median {Run(who=who, load=max(run.load for run in runs), **figures)}")
    if compared := ratios(runs):
        lines.append("ours over java: " + ", ".join(f"{name} {value:.2f}x" for name, value in compared.items()))
    for who, found in features(runs).items():
        java = f", {found['cpu_over_java']:.2f}x Java's" if "cpu_over_java" in found else ""
        lines.append(f"{who}: adds {found['adds_us']:.2f} us CPU a message{java}")
    if (kept := reliability(runs)) is not None:
        lines.append(f"kept over bare: {kept:.3f}x the CPU a message (bar {RELIABILITY_BAR:.2f})")
    return "\n".join(lines)


def write_json(path: Path, runs: Sequence[Run], settings: Mapping[str, Any]) -> None:
    content = {
        "schema": 1,
        "host": host(),
        "settings": dict(settings),
        "runs": [asdict(run) for run in runs],
        "medians": medians(runs),
        "ratios": ratios(runs),
        **({"features": compared} if (compared := features(runs)) else {}),
        **({"reliability": kept} if (kept := reliability(runs)) is not None else {}),
    }
    path.write_text(json.dumps(content, indent=2) + "\n")


def host() -> dict[str, object]:
    java = subprocess.run([jars.program("java"), "--version"], capture_output=True, text=True, check=True)
    return {
        "cpus": os.cpu_count(),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1_000_000,
        "system": platform.platform(),
        "python": platform.python_version(),
        "java": java.stdout.split("\n")[0],
        "rocketmq": jars.VERSION,
    }
