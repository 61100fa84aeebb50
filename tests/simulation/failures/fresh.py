"""Fresh seeds until time is over: what nobody has run yet, on all processors, and a file of what failed.

Owns the order of the runs and the form of the file. What a run is and what its verdict adds up to, the caller says.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import count
from multiprocessing import get_context
from pathlib import Path

from tests.simulation.failures.deadline import Deadline
from tests.simulation.failures.plan_text import as_object, replay_line
from tests.simulation.failures.shrink import first_violation
from tests.simulation.simulation import Verdict

BASES = 2_000_000_000
AHEAD = 3
"""So many runs a process are asked for at once, so that none waits while a long one is at work elsewhere."""
MINUTE_S = 60.0


def drawn_base() -> int:
    """Where nobody has begun yet."""
    return time.time_ns() // 1_000_000 % BASES


def verdicts(base: int, jobs: int, until: Deadline, run: Callable[[int], Verdict]) -> Iterator[Verdict]:
    """Of seed after seed from the base on, in their order; runs that have begun when the time is over still count."""
    seeds = count(base)
    if jobs <= 1:
        while not until.is_over():
            yield run(next(seeds))
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork"), initializer=_leave_signals_to_the_parent) as pool:
        asked: deque[Future[Verdict]] = deque()
        while True:
            while len(asked) < AHEAD * jobs and not until.is_over():
                asked.append(pool.submit(run, next(seeds)))
            if until.is_over():
                asked = deque(each for each in asked if not each.cancel())
            if not asked:
                return
            yield asked.popleft().result()


def _leave_signals_to_the_parent() -> None:
    """Ctrl-C reaches the whole process group; a run that has begun is to end in order."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def keep(path: Path, verdict: Verdict, commit: str) -> None:
    """One line more in the file, from which the failure replays whatever a later version draws."""
    violation = first_violation(verdict.violations)
    told = {
        "seed": verdict.plan.seed,
        "commit": commit,
        "truth": violation.truth,
        "fact": violation.fact,
        "at": violation.at,
        "command": replay_line(verdict.plan),
        "plan": as_object(verdict.plan),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps(told)}\n")


def commit_of(folder: Path) -> str:
    """What is checked out there, and whether it was changed since; `unknown` where git cannot say."""
    try:
        told = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return told.stdout.strip()


class Minutes:
    """A line a minute."""

    def __init__(self, until: Deadline, say: Callable[[str], object]) -> None:
        self._until = until
        self._say = say
        self._next_s = MINUTE_S

    def tell(self, seeds: int, failed: int) -> None:
        """Called after each run."""
        passed = self._until.passed_s
        if passed < self._next_s:
            return
        self._next_s = (passed // MINUTE_S + 1) * MINUTE_S
        self._say(f"{passed / 60:.0f} min: {seeds} seeds, {failed} failed, {self._until.left_s / 60:.0f} min left")
