"""What a start costs, and how much memory is held after it: `python -m benchmarks.start [--runs 7] [--workers 4]`.

New processes, whose cases take turns: the box in memory until it listens; `run` of one handler until each of its queues
(eight and the retry topic's) has its position; the same with several workers. Shown are the wall clock, the processor
time and the memory of the whole tree of processes (PSS: a page that several share counts in parts). The first round is
thrown away: it compiles. The box that they consume from is one process beside them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.arguments import positive
from benchmarks.machine import Busy, Meter
from benchmarks.process_tree import pss_bytes, ticks_s
from benchmarks.turns import Sample, write_json

ROOT = Path(__file__).parents[1]
BARS = {"run": 0.45, "box": 0.2}
"""Processor time, s."""
APPLICATION = """\
from framework import Message, consumer

@consumer("orders", "billing")
async def bill(order: Message) -> None: ...
"""
READY = ("ready:", "broker: ready")


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start."""

    what: str
    wall_s: float
    cpu_s: float
    memory_mb: float
    load: float
    stolen: float = 0.0

    def sample(self) -> Sample:
        figures = {"wall_s": self.wall_s, "cpu_s": self.cpu_s, "memory_mb": self.memory_mb}
        return Sample(who="ours", case=self.what, figures=figures, busy=Busy(self.load, self.stolen))


@contextmanager
def started(arguments: Sequence[str], folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and the line that says it is ready. Compiled modules are kept, as is usual."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        [sys.executable, "-m", "framework", *arguments],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**kept, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith(READY):
                yield process, line
                break
        else:
            raise SystemExit(f"framework-app {' '.join(arguments)}: ended with {process.wait()} before it was ready")
    finally:
        process.terminate()
        process.stdout.read()
        process.wait()
        process.stdout.close()


def measured(what: str, arguments: Sequence[str], folder: Path) -> Start:
    meter, began = Meter(), time.monotonic()
    with started(arguments, folder) as (process, _):
        wall_s, busy = time.monotonic() - began, meter.read()
        return Start(
            what=what, wall_s=wall_s, cpu_s=ticks_s(process.pid), memory_mb=pss_bytes(process.pid) / 1e6,
            load=busy.load, stolen=busy.stolen,
        )  # fmt: skip


def table(starts: Sequence[Start]) -> str:
    lines = [f"{'median of':<14} {'wall s':>8} {'CPU s':>8} {'PSS MB':>8}   bar (CPU)"]
    for what, of_one in grouped(starts).items():
        wall, cpu, memory = (
            statistics.median(getattr(one, name) for one in of_one) for name in ("wall_s", "cpu_s", "memory_mb")
        )
        bar = BARS.get(what)
        said = "" if bar is None else f"{bar:.2f} s: {'met' if cpu <= bar else 'NOT MET'}"
        lines.append(f"{what:<14} {wall:8.2f} {cpu:8.2f} {memory:8.1f}   {said}".rstrip())
    loads = [one.load for one in starts]
    lines.append(f"{len(starts)} starts, load {min(loads):.1f} to {max(loads):.1f}")
    return "\n".join(lines)


def grouped(starts: Sequence[Start]) -> dict[str, list[Start]]:
    found: dict[str, list[Start]] = {}
    for start in starts:
        found.setdefault(start.what, []).append(start)
    return found


def measure(runs: int, workers: int) -> list[Start]:
    found: list[Start] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "shop.py").write_text(APPLICATION)
        with started(("broker", "--memory", "--port", "0"), folder) as (_, line):
            address = line.split("namesrv=")[1].split()[0]
            subprocess.run(
                [sys.executable, "-m", "framework", "send", "orders", "first", "--name-server", address],
                cwd=folder, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
            run = ("run", "shop", "--name-server", address)
            cases = {
                "box": ("broker", "--memory", "--port", "0"),
                "run": run,
                f"run of {workers}": (*run, "--workers", str(workers)),
            }
            for number in range(runs + 1):
                for what, arguments in cases.items():
                    start = measured(what, arguments, folder)
                    if number:
                        found.append(start)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=positive, default=7)
    parser.add_argument("--workers", type=positive, default=4)
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    starts = measure(arguments.runs, arguments.workers)
    print(table(starts))
    if arguments.json is not None:
        write_json(arguments.json, "start", [start.sample() for start in starts], vars(arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
