"""What nobody has tried yet, for a while: `python -m tests.fresh --for 2m --base N --jobs 2` (make fresh).

Seeds of the simulation, tests in another order with other examples, inputs of the fuzz targets and, where there is time
for it, mistakes put in by machine. All is drawn by one base, which is printed first. What is found is a line each,
`found: WHAT; COMMAND`, with the command that repeats it. It says nothing about the last change, and is mended next.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.model.durations import to_ms

ROOT = Path(__file__).parents[1]
BASES = 2_000_000_000
FILES_AT_ONCE = 12
MARKED = "(not slow and not interop) or (unsteady and not slow)"
FUZZ_TARGETS = 6
FOUND, NOTHING_CHOSEN = 1, 5  # exit codes: of all four kinds, and of pytest
MISTAKES_FROM_S = 1_200
"""Which lines each seed and each test runs is noted before the first mistake is tried: that alone takes minutes."""
MISTAKE_S = 60
GRACE_S = 10
"""How far beyond its time something may go to end what it has begun."""


@dataclass(frozen=True)
class Fresh:
    """One run. Each kind of chance yields what it finds."""

    base: int
    jobs: int
    folder: Path

    def kinds(self, seconds: float) -> list[tuple[Callable[[float], Iterator[str]], float]]:
        """Each with its time; what is left over goes into starts and ends."""
        if seconds < MISTAKES_FROM_S:
            return [(self.seeds, seconds * 0.4), (self.tests, seconds * 0.3), (self.inputs, seconds * 0.1)]
        shares = {self.seeds: 0.4, self.tests: 0.25, self.inputs: 0.05, self.mistakes: 0.3}
        return [(kind, seconds * share) for kind, share in shares.items()]

    def seeds(self, seconds: float) -> Iterator[str]:
        """What fails is kept in build/failing-seeds.jsonl, too."""
        found = self.folder / "seeds.jsonl"
        options = [
            "--for",
            f"{int(seconds)}s",
            "--base",
            f"{self.base}",
            "--jobs",
            f"{self.jobs}",
            "--found",
            str(found),
        ]
        code, _ = self._call([sys.executable, "-m", "tests.simulation", *options], seconds + GRACE_S)
        kept = ROOT / "build" / "failing-seeds.jsonl"
        kept.parent.mkdir(exist_ok=True)
        with kept.open("a", encoding="utf-8") as file:
            for said in objects(found):
                file.write(f"{json.dumps(said)}\n")
                command = f"python -m tests.simulation.one --seed {said['seed']}"
                yield f"seed {said['seed']}: {said['truth']}: {said['fact']}; {command}"
        yield from broken("seeds", code, f"make sim FOR={int(seconds)}s BASE={self.base}")

    def tests(self, seconds: float) -> Iterator[str]:
        """Files of tests, drawn; each handful in another order and with other examples."""
        files = sorted(
            str(path.relative_to(ROOT))
            for folder in ("tests", "plugins", "example_app")
            for path in (ROOT / folder).rglob("test_*.py")
        )
        random.Random(self.base).shuffle(files)
        until = time.monotonic() + seconds
        while files and time.monotonic() < until:
            chosen, files = files[:FILES_AT_ONCE], files[FILES_AT_ONCE:]
            yield from self._tests(chosen, until + GRACE_S - time.monotonic())

    def _tests(self, files: Sequence[str], limit_s: float) -> Iterator[str]:
        drawn = [f"--randomly-seed={self.base}", f"--hypothesis-seed={self.base}"]
        pytest = ["-m", "pytest", "-q", "-m", MARKED, "-n", f"{self.jobs}", "--dist", "loadgroup", *drawn, *files]
        notes = self.folder / "notes"
        notes.unlink(missing_ok=True)
        own = ["-p", "tests.notes", "-o", f"cache_dir={self.folder}/cache"]
        variable = {"FRESH_BASE": f"{self.base}"}
        code, _ = self._call([sys.executable, *pytest, *own], limit_s, variable | {"TEST_NOTES": str(notes)})
        command = f"FRESH_BASE={self.base} .venv/bin/python {shlex.join(pytest)}"
        for said in objects(notes):
            if name := said.get("failed") or said.get("broken"):
                yield f"{name}: {said['error']}; {command}"
        yield from broken("tests", None if code == NOTHING_CHOSEN else code, command)

    def inputs(self, seconds: float) -> Iterator[str]:
        """What crashes a target is kept in tests/fuzz/crashes."""
        each = max(int(seconds / FUZZ_TARGETS), 1)
        limit_s = (each + GRACE_S) * FUZZ_TARGETS  # a target's process has to start, too
        command, variables = [sys.executable, "-m", "tests.fuzz.run"], {"SECONDS": f"{each}", "TARGET": ""}
        code, output = self._call(command, limit_s, variables)
        for line in output.splitlines():
            told = re.match(r"(\w+): runs=\d+ crashes=(\d+)", line)
            if told and (told[2] != "0" or " TOO " in line):
                yield f"fuzz {line}; make fuzz TARGET={told[1]} SECONDS=60"
        yield from broken("inputs", code, "make fuzz")

    def mistakes(self, seconds: float) -> Iterator[str]:
        """Those that neither seeds nor tests notice."""
        count = int(seconds / MISTAKE_S)
        options = ["--mutants", f"{count}", "--base", f"{self.base}", "--jobs", f"{self.jobs}"]
        code, output = self._call([sys.executable, "-m", "tests.mutation", *options], seconds + GRACE_S)
        command = f"make mutate MUTANTS={count} BASE={self.base}"
        for line in output.splitlines():
            if told := re.match(r"\d+/\d+ SURVIVED (\S+)", line):
                yield f"mistake in {told[1]} survives; {command}"
        yield from broken("mistakes", code, command)

    def _call(
        self, command: Sequence[str], limit_s: float, variables: dict[str, str] | None = None
    ) -> tuple[int | None, str]:
        """Its exit code and what it said, on stderr, too. What is over its time is ended, with all that it started:
        then there is no code, and what it found so far counts.
        """
        with (self.folder / "output").open("w+", encoding="utf-8", errors="replace") as output:
            running = subprocess.Popen(
                command, cwd=ROOT, env=os.environ | (variables or {}), stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
            code = None
            try:
                with suppress(subprocess.TimeoutExpired):
                    code = running.wait(max(limit_s, GRACE_S))
            finally:
                end(running)
            output.seek(0)
            said = output.read()
        sys.stderr.write(said)
        return code, said


def broken(kind: str, code: int | None, command: str) -> Iterator[str]:
    """What looks for something and breaks off finds nothing, too."""
    if code not in {None, 0, FOUND}:
        yield f"{kind} broke off with code {code}; {command}"


def end(running: subprocess.Popen[bytes]) -> None:
    """Its whole group, politely and then not: pytest tears down what its tests began only where it is interrupted."""
    for how in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(running.pid, how)
        with suppress(subprocess.TimeoutExpired):
            running.wait(GRACE_S)
            return


def objects(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Try for a while what nobody has tried yet.")
    parser.add_argument("--for", dest="length", default="2m", help="how long, such as 20m")
    parser.add_argument("--base", type=int, default=0, help="what all is drawn by; 0: the clock")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args(arguments)
    base = options.base or time.time_ns() // 1_000_000 % BASES
    print(f"fresh: base={base} for {options.length}", flush=True)
    count = 0
    with tempfile.TemporaryDirectory(prefix="fresh-") as folder:
        run = Fresh(base, options.jobs, Path(folder))
        for kind, seconds in run.kinds(to_ms(options.length) / 1000):
            for found in kind(seconds):
                count += 1
                print(f"found: {found}", flush=True)
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
