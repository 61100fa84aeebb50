"""The box as `benchmarks.broker` starts it, its bars, and the table that its figures make.

It measures a start: from outside, from before the process is there to the line that says it listens.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.process_tree import TICKS_A_SECOND
from tests.interop.processes import Nursery

ROOT = Path(__file__).parents[1]
BARS = {"start": 0.5, "memory": 60.0, "batch": 20_000.0, "single": 8_000.0, "pull": 150_000.0}
"""Of the box alone. The first two are upper bounds."""
UPPER = {"start", "start cpu", "memory"}
SLOWER = 0.9
"""From which share on a pull counts as no slower: medians of a few seconds differ by as much from themselves."""
NAMES = {
    "start": "start to its ready line, s",
    "start cpu": "  processor time of it, s",
    "memory": "memory when empty, MB",
    "batch": "durable sends/s, in batches",
    "single": "durable sends/s, one by one",
    "pull few": "pulled messages/s, few stored",
    "pull": "pulled messages/s, all stored",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measurement of one side."""

    what: str
    who: str
    value: float
    cpu_us: float = 0.0
    """The broker's, a message."""
    cores: float = 0.0
    generator_cores: float = 0.0
    """Of the busiest generator."""
    refused: int = 0
    load: float = 0.0

    def named(self, what: str) -> Figure:
        return replace(self, what=what)

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.who:9} {self.what:9} {self.value:12,.1f}  {self.cpu_us:7.1f} us CPU a message, "
            f"{self.cores:.2f} cores, generator {self.generator_cores:.2f}, load {self.load:.0f}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a start took."""

    address: str
    seconds: float
    cpu_s: float
    memory_mb: float

    def figures(self) -> list[Figure]:
        values = {"start": self.seconds, "start cpu": self.cpu_s, "memory": self.memory_mb}
        return [Figure(what=what, who="box", value=value) for what, value in values.items()]

    @staticmethod
    def memory_mb_of(pid: int) -> float:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024 / 1e6
        return 0.0


def box_started(nursery: Nursery, folder: Path, *, profile: Path | None = None) -> tuple[subprocess.Popen[str], Start]:
    """`framework-app broker` on a new folder, once it listens."""
    profiled = ["-m", "cProfile", "-o", str(profile)] if profile else []
    command = [sys.executable, *profiled, "-m", "framework", "broker", "--data", str(folder)]
    began = time.monotonic()
    child = nursery.start(command, cwd=ROOT, talks=True)
    assert child.stdout is not None
    line = child.stdout.readline()
    seconds = time.monotonic() - began
    if "namesrv=" not in line:
        raise SystemExit("the box did not start")
    fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    cpu_s = (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND
    address = line.split("namesrv=")[1].split()[0]
    return child, Start(address=address, seconds=seconds, cpu_s=cpu_s, memory_mb=Start.memory_mb_of(child.pid))


def report(figures: Sequence[Figure], options: argparse.Namespace) -> str:
    """A line a figure: the bar, the box, the real broker, and what the box and the generator used."""
    lines = [f"{'':32}{'bar':>9} {'box':>12} {'RocketMQ':>12} {'CPU us':>8} {'cores':>6} {'generator':>9}"]
    for what, name in NAMES.items():
        ours, theirs = median(figures, what, "box"), median(figures, what, "rocketmq")
        if ours is None:
            continue
        bar = BARS.get(what)
        digits = 2 if what.startswith("start") else 0
        text = f"{name:32}{'' if bar is None else f'{bar:,g}':>9} {ours.value:12,.{digits}f} "
        text += f"{'':>12}" if theirs is None else f"{theirs.value:12,.{digits}f}"
        if ours.cores:
            text += f" {ours.cpu_us:8.1f} {ours.cores:6.2f} {ours.generator_cores:9.2f}"
        lines.append(text + _verdict(what, ours, bar))
    few, deep = median(figures, "pull few", "box"), median(figures, "pull", "box")
    if few is not None and deep is not None:
        share = deep.value / few.value
        slower = "no slower" if share >= SLOWER else "slower"
        lines.append(
            f"a pull with {options.stored:,} stored against {options.few:,}: {share:.2f}x its rate, "
            f"{deep.cpu_us / few.cpu_us:.2f}x its processor time: {slower}"
        )
    return "\n".join(lines)


def _verdict(what: str, ours: Figure, bar: float | None) -> str:
    if bar is None:
        return ""
    is_met = ours.value < bar if what in UPPER else ours.value >= bar
    if is_met:
        return "  met"
    if ours.generator_cores > 0.9:
        return "  not met: the generator has no more; --generators 2"
    if ours.cores and ours.cores < 0.7:
        return f"  not met, with {ours.cores:.2f} of a core given to it: busy machine or disk"
    return "  not met"


def median(figures: Sequence[Figure], what: str, who: str) -> Figure | None:
    """The medians of a figure's rounds."""
    rounds = [each for each in figures if (each.what, each.who) == (what, who)]
    if not rounds:
        return None
    middle = {
        name: statistics.median(getattr(each, name) for each in rounds)
        for name in ("value", "cpu_us", "cores", "generator_cores", "load")
    }
    return Figure(what=what, who=who, **middle)
