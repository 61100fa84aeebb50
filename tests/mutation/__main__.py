"""Mistakes by machine: `python -m tests.mutation --mutants 200 --base 20260101 --jobs 2` (make mutate).

It prints first what it draws from, then a line per mutant, at last the survivors and the two figures that the project
is held to. What it has found is kept in build/mutation/results.jsonl: a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import TextIO, TypeVar

from tests.mutation.drawing import NAMES, ROOT, draw, equivalents, room_of
from tests.mutation.operators import Mutant
from tests.mutation.report import Outcome, figures, lines_of
from tests.mutation.trials import GROUPS, OUT, SEEDS, UNTESTED, Finding, SeedBaseline, TestBaseline, Trial, content_hash

RESULTS = OUT / "results.jsonl"
Thing = TypeVar("Thing")
SEEDS_AFTER = 1_000_000_007
"""Seeds of a base must not be those of the next day's."""


class Kept:
    """What was found earlier, by the content of the sources, the base and the mutant."""

    def __init__(self, path: Path, code: str, base: int) -> None:
        self._path, self._where = path, {"code": code, "base": base}
        self._lock = threading.Lock()
        self._known: dict[str, Finding] = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            said = json.loads(line)
            if (said["code"], said["base"]) == (code, base):
                self._known[said["mutant"]] = Finding(said["by"], said["detail"], said["seeds_ran"])

    def finding(self, mutant: Mutant) -> Finding | None:
        return self._known.get(mutant.key)

    def is_done(self, mutant: Mutant) -> bool:
        finding = self.finding(mutant)
        return finding is not None and finding.by != UNTESTED

    def add(self, mutant: Mutant, finding: Finding) -> Finding:
        said = {
            **self._where, "commit": _commit(), "mutant": mutant.key, "line": mutant.line, "by": finding.by,
            "detail": finding.detail, "seeds_ran": finding.seeds_ran,
        }  # fmt: skip
        with self._lock:
            self._known[mutant.key] = finding
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(said) + "\n")
        return finding


def _commit() -> str:
    done = subprocess.run(
        ("git", "rev-parse", "--short", "HEAD"), cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def day() -> int:
    """The base of today: 20260131."""
    return int(dt.datetime.now(tz=dt.UTC).strftime("%Y%m%d"))


def mutate(count: int, base: int, jobs: int, *, rooms: Iterable[str] = (), tell: TextIO = sys.stdout) -> list[Outcome]:
    """Draw, try and tell."""
    mutants = draw(count, base, rooms=rooms)
    known = equivalents()
    tried = [mutant for mutant in mutants if mutant.key not in known]
    kept = Kept(RESULTS, content_hash("framework", "plugins", "tests"), base)
    first = base * SEEDS_AFTER % 2_000_000_000
    tell.write(f"mutate: base={base} mutants={count} seeds={first}..{first + SEEDS - 1} at {_commit()}\n")
    tell.flush()
    trial: Trial | None = None
    if not all(map(kept.is_done, tried)):
        trial = _measured(tried, first, jobs, tell)

    def by_seeds(mutant: Mutant) -> Finding:
        return kept.finding(mutant) or kept.add(mutant, _there(trial).by_seeds(mutant))

    def by_tests(mutant: Mutant) -> Finding:
        finding = _there(kept.finding(mutant))
        return finding if finding.by != UNTESTED else kept.add(mutant, _there(trial).by_tests(mutant, finding))

    findings: list[Finding] = []
    with ThreadPoolExecutor(jobs) as pool:
        for stage in (by_seeds, by_tests):
            findings.clear()
            for mutant, finding in zip(tried, pool.map(stage, tried), strict=True):
                findings.append(finding)
                if stage is by_seeds or finding.by != "seeds":
                    said = Outcome(mutant, room_of(mutant.file).name, finding).line()
                    tell.write(f"{len(findings)}/{len(tried)} {said}\n")
                    tell.flush()
    outcomes = [Outcome(each, room_of(each.file).name, why=known[each.key]) for each in mutants if each.key in known]
    outcomes += map(Outcome, tried, (room_of(each.file).name for each in tried), findings)
    tell.writelines(f"{line}\n" for line in lines_of(outcomes))
    return outcomes


def _there(thing: Thing | None) -> Thing:
    assert thing is not None
    return thing


def _measured(mutants: Sequence[Mutant], first_seed: int, jobs: int, tell: TextIO) -> Trial:
    """What holds without a mutant: the seeds at once, the tests of each folder when something comes so far."""
    seeds = SeedBaseline(first_seed)
    seeds.measure()
    if seeds.failing:
        tell.write(f"mutate: left out, for they fail without a mutant: seeds {', '.join(map(str, seeds.failing))}\n")
    folders = dict.fromkeys(folder for mutant in mutants for folder in room_of(mutant.file).tests)
    tests = {folder: TestBaseline(folder, jobs, tell.write) for folder in folders}
    return Trial(seeds, tests)


def _stop(number: int, _frame: FrameType | None) -> None:
    """At once, and with all that was started: what is not finished begins anew in the next run."""
    GROUPS.stop()
    os._exit(128 + number)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Put mistakes into the code by machine and see what finds them.")
    parser.add_argument("--mutants", type=int, default=40, help="how many")
    parser.add_argument("--base", type=int, default=0, help="what they are drawn by; 0: the day")
    parser.add_argument("--jobs", type=int, default=0, help="mutants at a time; 0: one a processor")
    parser.add_argument("--room", action="append", choices=NAMES, default=[], help="only this room; may be given again")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    outcomes = mutate(options.mutants, options.base or day(), options.jobs or os.cpu_count() or 1, rooms=options.room)
    return 0 if figures(outcomes).holds else 1


if __name__ == "__main__":
    sys.exit(main())
