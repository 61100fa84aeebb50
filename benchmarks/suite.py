"""Every measurement that docs/performance.md is drawn from, in the order of worth, each with its own file of results.

    python -m benchmarks.suite                          all of them, some four hours on two quiet cores
    python -m benchmarks.suite --only latency,memory    some
    python -m benchmarks.suite --quick --to FOLDER      small amounts: whether each works
    python -m benchmarks.suite --list                   names, commands and minutes

One after the other, since two at once would measure each other. One that fails is named at the end, and the rest goes
on. `make bench-report` draws. Exit 0: all were measured; 1: some were not.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.machine import ROOT

RESULTS = ROOT / "benchmarks" / "results"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One command. Its results are in NAME.json."""

    name: str
    module: str
    words: tuple[str, ...] = ()
    quick: tuple[str, ...] = ("--quick",)
    """Words behind those, for small amounts."""
    minutes: int
    """On two quiet cores, about."""

    def command(self, *, is_quick: bool = False) -> list[str]:
        return ["-m", f"benchmarks.{self.module}", *self.words, *(self.quick if is_quick else ())]


def _consume(name: str, *words: str, minutes: int) -> Measurement:
    quick = ("--messages", "20000", "--runs", "1")
    return Measurement(name=f"consume-{name}", module="consume", words=words, quick=quick, minutes=minutes)


def _produce(mode: str, *words: str, minutes: int) -> Measurement:
    quick = ("--messages", "2000", "--runs", "1")
    return Measurement(
        name=f"produce-{mode}", module="produce", words=("--mode", mode, *words), quick=quick, minutes=minutes
    )


SUITE = (
    _consume("async", minutes=5),
    _consume("features", "--features", minutes=10),
    _consume("batch", "--handler", "batch", minutes=5),
    _consume("orderly", "--handler", "orderly", minutes=5),
    _consume("observed", "--observed", "--against", "none", minutes=6),
    Measurement(name="latency", module="latency", minutes=15),
    Measurement(name="memory", module="memory", minutes=6),
    Measurement(name="growth", module="growth", words=("--part", "queues,groups,workers,idle"), minutes=40),
    Measurement(name="peers", module="peers", minutes=20),
    _consume("tuned", "--tuned", minutes=5),
    _consume("tuned-batch", "--tuned", "--handler", "batch", minutes=5),
    _consume("batch-typed", "--handler", "batch-typed", minutes=5),
    _consume("1024-bytes", "--body", "1024", minutes=8),
    _consume("threads", "--handler", "sync", minutes=5),
    Measurement(name="start", module="start", quick=("--runs", "1"), minutes=2),
    _produce("batch", "--messages", "200000", "--body", "100", minutes=3),
    _produce("concurrent", "--messages", "60000", minutes=5),
    _produce("accumulated", "--messages", "200000", "--body", "100", minutes=3),
    _produce("one-way", "--messages", "40000", minutes=4),
    _produce("single", "--messages", "20000", minutes=5),
    Measurement(name="first-steps", module="first_steps", quick=("--runs", "1"), minutes=4),
    Measurement(name="growth-backlog", module="growth", words=("--part", "backlog"), minutes=60),
)


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    if options.list:
        for each in SUITE:
            print(f"{each.name:<20} {each.minutes:>3} min  python {' '.join(each.command())}")
        print(f"{'all':<20} {sum(each.minutes for each in SUITE):>3} min")
        return 0
    options.to.mkdir(parents=True, exist_ok=True)
    failed = []
    for each in options.only or SUITE:
        began = time.monotonic()
        print(f"{each.name}: python {' '.join(each.command(is_quick=options.quick))}", file=sys.stderr, flush=True)
        words = [*each.command(is_quick=options.quick), "--json", str(options.to / f"{each.name}.json")]
        code = subprocess.run([sys.executable, *words], cwd=ROOT, check=False).returncode
        print(f"{each.name}: {time.monotonic() - began:.0f} s, exit {code}", file=sys.stderr, flush=True)
        if code:
            failed.append(each.name)
    if failed:
        print(f"not measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _only(text: str) -> list[Measurement]:
    named = {each.name: each for each in SUITE}
    if unknown := [name for name in text.split(",") if name not in named]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(named)}")
    return [named[name] for name in text.split(",")]


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.suite", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", type=_only, metavar="NAME,NAME")
    parser.add_argument("--to", type=Path, default=RESULTS, metavar="FOLDER", help="default: benchmarks/results")
    parser.add_argument("--quick", action="store_true", help="small amounts: whether it works")
    parser.add_argument("--list", action="store_true", help="say what there is, and measure nothing")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
