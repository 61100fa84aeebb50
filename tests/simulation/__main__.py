"""Many seeds over several processes: `python -m tests.simulation --seeds 300 --base 0 --jobs 2` (make sim).

Results go to stdout, the last line in the form that CONTRACTS names; progress goes to stderr. Seeds that failed once
are run first, forever. Over the seeds of a CI run every fault kind and every mark must come up, or the generator is
blind. With `--for 20m` it draws fresh seeds until the time is over, and keeps what failed in a file.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from framework.model.durations import to_ms
from tests.simulation.checkers.excuses import too_often
from tests.simulation.expected_marks import EXPECTED
from tests.simulation.failures import fresh, plan_text
from tests.simulation.failures.deadline import deadline
from tests.simulation.faults.kinds import NAMES, kind_named
from tests.simulation.plans import matrix
from tests.simulation.plans.plan import SECONDS, draw
from tests.simulation.simulation import Verdict, play, replay_command

CI_SEEDS = 300
"""From so many seeds on, a kind or a mark that never came up is a failure."""
MATRIX_SEEDS = 1_000
"""From so many on, a way and a kind of fault that never met are one, too."""
SHOWN_MAX = 5
PROGRESS_EACH = 25
KEPT_SEEDS = "tests/simulation/failing_seeds.txt"
FOUND = "build/failing-seeds.jsonl"


class Run(NamedTuple):
    """A seed to play; with kinds of fault or ways of consuming that are not to be drawn, or a whole plan as JSON."""

    seed: int
    faults: tuple[str, ...] | None = None
    ways: tuple[str, ...] | None = None
    plan: str = ""


@dataclass(slots=True)
class Result:
    """All verdicts together."""

    seeds: int
    base: int
    failed: list[Verdict] = field(default_factory=list)
    virtual_s: float = 0.0
    steps: int = 0
    fired: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    excuses: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(truth, reason) -> how often something was let pass for it."""
    excused: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The same -> in how many of the drawn runs."""
    met: Counter[matrix.Pair] = field(default_factory=Counter)
    """In how many runs a way and a kind of fault came together."""
    traces: dict[int, str] = field(default_factory=dict)

    def add(self, verdict: Verdict) -> None:
        self.virtual_s += verdict.virtual_s
        self.steps += verdict.steps
        self.fired += verdict.fired
        self.marks += verdict.marks
        if self.base <= verdict.plan.seed < self.base + self.seeds:  # kept seeds are no sample of anything
            self.excuses += verdict.excuses
            self.excused.update(verdict.excuses.keys())
        self.met.update(verdict.met)
        self.traces[verdict.plan.seed] = verdict.trace
        if not verdict.is_ok:
            self.failed.append(verdict)

    @property
    def never_fired(self) -> list[str]:
        return [name for name in NAMES if not self.fired[name]]

    @property
    def never_reached(self) -> list[str]:
        return [mark for mark in EXPECTED if not self.marks[mark]]

    @property
    def trace(self) -> str:
        """One hash over the traces of all seeds, in their order."""
        joined = " ".join(f"{seed}:{trace}" for seed, trace in sorted(self.traces.items()))
        return hashlib.blake2b(joined.encode(), digest_size=8).hexdigest()

    def last_line(self, wall_s: float) -> str:
        return (
            f"sim: seeds={self.seeds} base={self.base} failed={len(self.failed)} virtual_s={self.virtual_s:.0f} "
            f"wall_s={wall_s:.0f} kinds={len(NAMES) - len(self.never_fired)}/{len(NAMES)} "
            f"sometimes={len(EXPECTED) - len(self.never_reached)}/{len(EXPECTED)} trace={self.trace}"
        )


def run_one(run: Run, seconds: float = SECONDS) -> Verdict:
    """One run as the swarm does it."""
    kinds = None if run.faults is None else [kind_named(name) for name in run.faults]
    plan = plan_text.read(run.plan) if run.plan else draw(run.seed, seconds=seconds, kinds=kinds, ways=run.ways)
    verdict, _ = play(plan)
    gc.collect()  # the collector is off during a run; what it left is cheap to find before the next
    return verdict


def run_all(runs: Sequence[Run], *, jobs: int = 1, seconds: float = SECONDS) -> Iterator[Verdict]:
    """The verdicts, in the order of the runs."""
    gc.collect()
    gc.freeze()  # what is loaded by now is looked at no more
    run = partial(run_one, seconds=seconds)
    if jobs <= 1:
        yield from map(run, runs)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
        yield from pool.map(run, runs)


def kept_runs(path: Path) -> list[Run]:
    """What the file keeps: a seed per line, then `faults=a,b` and `ways=c,d` if they are given, and why after a #.

    Or a plan, as `--shrink` of `tests/simulation/one.py` prints it.
    """
    if not path.exists():
        return []
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [_kept(line) for line in lines if line]


def _kept(line: str) -> Run:
    if line.startswith("{"):
        return Run(plan_text.read(line).seed, plan=line)
    words = line.split()
    given = dict(word.split("=") for word in words[1:])
    assert given.keys() <= {"faults", "ways"}, f"a seed is kept with faults= and ways=, not as {' '.join(words)!r}"
    chosen = {name: tuple(value.split(",")) for name, value in given.items()}
    return Run(int(words[0]), chosen.get("faults"), chosen.get("ways"))


def complaints(result: Result) -> Iterator[str]:
    """What is wrong with the run, failures first, each with the line that repeats it."""
    for verdict in result.failed:
        yield f"seed {verdict.plan.seed} failed on Python {platform.python_version()}: {verdict.plan}"
        for violation in verdict.violations[:SHOWN_MAX]:
            yield f"  {violation}"
        yield replay_command(verdict.plan)
    if result.seeds >= CI_SEEDS:
        yield from (f"fault kind {name!r} never fired in {result.seeds} seeds" for name in result.never_fired)
        yield from (f"mark {mark!r} was never reached in {result.seeds} seeds" for mark in result.never_reached)
        yield from too_often(result.excused, result.seeds)
    if result.seeds >= MATRIX_SEEDS:
        yield from (f"{way!r} never met {kind!r} in {result.seeds} seeds" for way, kind in matrix.never_met(result.met))


def swarm(
    seeds: int,
    base: int,
    jobs: int,
    *,
    first: Iterable[Run] = (),
    seconds: float = SECONDS,
    tell: Callable[[int, int, Verdict], None] | None = None,
) -> Result:
    """Run them all; `tell(done, of, verdict)` after each."""
    tell = tell or no_progress
    result = Result(seeds, base)
    order = list(dict.fromkeys((*first, *map(Run, range(base, base + seeds)))))
    for done, verdict in enumerate(run_all(order, jobs=jobs, seconds=seconds), start=1):
        result.add(verdict)
        tell(done, len(order), verdict)
    return result


def draw_for(seconds: float, base: int, jobs: int, *, found: Path, run_seconds: float = SECONDS) -> Result:
    """Fresh seeds from the base on until the time is over, or Ctrl-C; what fails is added to the file at once."""
    gc.collect()
    gc.freeze()
    result = Result(0, base)
    commit = fresh.commit_of(Path.cwd())
    with deadline(seconds) as until:
        sys.stdout.write(f"fresh seeds: base={base}\n")
        sys.stdout.flush()
        minutes = fresh.Minutes(until, lambda line: sys.stderr.write(f"{line}\n"))
        for verdict in fresh.verdicts(base, jobs, until, partial(_run_fresh, seconds=run_seconds)):
            result.seeds += 1
            result.add(verdict)
            if not verdict.is_ok:
                fresh.keep(found, verdict, commit)
                sys.stderr.write(f"{verdict.plan.seed} failed: {verdict.violations[0]}\n")
            minutes.tell(result.seeds, len(result.failed))
    return result


def _run_fresh(seed: int, seconds: float) -> Verdict:
    return run_one(Run(seed), seconds)


def no_progress(done: int, count: int, verdict: Verdict) -> None:
    """Nobody watches."""


def to_stderr(done: int, count: int, verdict: Verdict) -> None:
    """A line now and then, and one for each failure at once."""
    if not verdict.is_ok:
        sys.stderr.write(f"{done}/{count}: {verdict.plan.seed} failed: {verdict.violations[0]}\n")
    elif done % PROGRESS_EACH == 0:
        sys.stderr.write(f"{done}/{count}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run many simulated clusters, each from its own seed.")
    parser.add_argument("--seeds", type=int, default=CI_SEEDS, help="how many")
    parser.add_argument("--base", type=int, help="the first one (default 0; with --for: drawn anew)")
    parser.add_argument(
        "--for", dest="length", metavar="TIME", help="fresh seeds for so long, such as 20m; no kept ones"
    )
    parser.add_argument("--found", type=Path, default=Path(FOUND), help=f"with --for: what failed goes here ({FOUND})")
    parser.add_argument("--jobs", type=int, default=0, help="processes; 0: one a processor")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="virtual seconds a seed")
    parser.add_argument("--kept", type=Path, default=Path(KEPT_SEEDS), help="seeds that once failed, run first")
    parser.add_argument("--counts", action="store_true", help="also how often each fault kind and mark came up")
    parser.add_argument("--matrix", action="store_true", help="also in how many runs each way met each kind of fault")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    jobs = options.jobs or os.cpu_count() or 1
    if options.length is not None:
        base = fresh.drawn_base() if options.base is None else options.base
        length_s = to_ms(options.length) / 1000
        result = draw_for(length_s, base, jobs, found=options.found, run_seconds=options.seconds)
    else:
        first = kept_runs(options.kept)
        result = swarm(options.seeds, options.base or 0, jobs, first=first, seconds=options.seconds, tell=to_stderr)
    if options.counts:
        for name, count in (*sorted(result.fired.items()), *sorted(result.marks.items())):
            sys.stdout.write(f"{count:8} {name}\n")
        for (truth, reason), runs in sorted(result.excused.items()):
            sys.stdout.write(f"{result.excuses[truth, reason]:8} excused in {runs} runs: {truth}: {reason}\n")
    if options.matrix:
        sys.stdout.writelines(f"{line}\n" for line in matrix.lines(result.met))
    wrong = list(complaints(result))
    for line in wrong:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{result.last_line(time.monotonic() - began)}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
