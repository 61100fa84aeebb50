"""One mutant against the seeds, then against its room's tests.

What holds without it is measured first, and kept in build/. A seed that does not run the mutant's line plays as it does
without it, for a run depends on nothing but its seed: only those that run it are tried. Of the tests those that run the
line come first, then the files whose children or shared fixtures may run it unseen.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.mutation.drawing import ROOMS, ROOT, room_of
from tests.mutation.hook.sitecustomize import VARIABLE
from tests.mutation.operators import Mutant

HOOK = Path(__file__).with_name("hook")
OUT = ROOT / "build" / "mutation"
SEEDS = 60
CPU_FACTOR, CPU_MORE_S = 5, 10
"""What a seed may take, of what it takes without: a mutant may keep a cluster busy without breaking anything."""
WALL_S = 600
USAGE = 4
"""pytest's exit code for tests that are not there: an error of this tool."""
TEST_S = 60
PYTEST = (
    "-q", "-m", "not slow and not interop", "-p", "no:randomly", "-p", "no:cacheprovider", "--assert=plain",
    "--durations=0", "--durations-min=9999",
)  # fmt: skip
"""Plain assertions: those that pytest rewrites load our modules past the mutant, for we bring a plugin of pytest's."""
MARKER_OF_CHILDREN = re.compile(
    r"scope=\"|subprocess|multiprocessing|os\.fork|processes import|forking import|kills import"
)


UNTESTED = "untested"


@dataclass(frozen=True, slots=True)
class Finding:
    """By what a mutant was found, or that nothing found it."""

    by: str
    """`seeds`, `tests` or nothing; `untested` where no seed found it and no test was tried."""
    detail: str
    seeds_ran: int
    """How many of the seeds run the mutant's line."""


def content_hash(*folders: str) -> str:
    """Of all sources below these folders, without this tool: what was measured holds as long as it is the same."""
    made = hashlib.blake2b(digest_size=6)
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "tests/mutation" not in path.as_posix():
                made.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return made.hexdigest()


MEASURING = threading.Lock()
"""One folder at a time: it takes all processors as it is."""


class SeedBaseline:
    """What the seeds do without a mutant: which of them hold, and which lines each of them runs."""

    def __init__(self, base: int, count: int = SEEDS) -> None:
        self.seeds = tuple(range(base, base + count))
        self._path = OUT / f"seeds-{content_hash('framework')}-{base}-{count}.json"
        self._said: dict[str, object] = {}

    def measure(self) -> None:
        if not self._path.exists():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            cover = self._path.with_suffix(".part")
            command = (*_python("tests.mutation.seeds"), "--only", _joined(self.seeds), "--cover", str(cover))
            code, out, errors = GROUPS.run(command, dict(os.environ))
            assert code == 0, errors[-2000:]
            verdicts = [json.loads(line) for line in out.splitlines()]
            self._path.write_text(json.dumps({**json.loads(cover.read_text()), "verdicts": verdicts}))
            cover.unlink()
        self._said = json.loads(self._path.read_text())

    @cached_property
    def _verdicts(self) -> dict[int, dict[str, object]]:
        verdicts = self._said["verdicts"]
        assert isinstance(verdicts, list)
        return {each["seed"]: each for each in verdicts}

    @property
    def failing(self) -> tuple[int, ...]:
        return tuple(seed for seed in self.seeds if self._verdicts[seed]["violations"])

    @property
    def cpu_s(self) -> float:
        return max(float(str(each["cpu_s"])) for each in self._verdicts.values())

    def imports(self, file: str) -> bool:
        imported = self._said["imported"]
        assert isinstance(imported, list)
        return file in imported

    def running(self, mutant: Mutant) -> tuple[int, ...]:
        """The seeds that hold without the mutant and run its line."""
        if not self.imports(mutant.file):
            return ()
        sound = tuple(seed for seed in self.seeds if seed not in self.failing)
        if mutant.lines == (0, 0):
            return sound
        lines = self._said["lines"]
        assert isinstance(lines, dict)
        there = lines.get(mutant.file, {})
        ran = {seed for line in range(mutant.lines[0], mutant.lines[1] + 1) for seed in there.get(str(line), ())}
        if ran == {self.seeds[0]}:  # the first in its process may have run it for all: a cache, a late import
            return sound
        return tuple(seed for seed in sound if seed in ran)


class TestBaseline:
    """What the tests of one folder do without a mutant: which of them pass, and which lines each of them runs."""

    __test__ = False

    def __init__(self, folder: str, jobs: int = 1, tell: Callable[[str], object] = str) -> None:
        self.folder = folder
        self._path = OUT / f"tests-{folder.replace('/', '-')}-{content_hash('framework', 'plugins', folder)}.json"
        self._jobs, self._tell = jobs, tell
        self.failing: list[str] = []
        self._lines: dict[str, dict[str, list[str]]] | None = None

    def measure(self) -> None:
        """Once, when a mutant first needs it: many are found before they come to a folder further out."""
        with MEASURING:
            if self._lines is not None:
                return
            if not self._path.exists():
                self._tell(f"mutate: {self.folder} without a mutant\n")
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._path.write_text(json.dumps(self._measured(self._jobs)), encoding="utf-8")
            said = json.loads(self._path.read_text(encoding="utf-8"))
            self.failing, self._lines = said["failing"], said["lines"]
            for test in self.failing:
                self._tell(f"mutate: left out, for it fails without a mutant: {test}\n")

    def _measured(self, jobs: int) -> dict[str, object]:
        import coverage

        with tempfile.TemporaryDirectory(dir=OUT) as folder:
            data_file = Path(folder) / "coverage"
            sources = [f"--cov={ROOT / each}" for room in ROOMS for each in room.folders]
            command = (
                *_python("pytest"), self.folder, *PYTEST, "-n", str(jobs), "--dist", "loadgroup", *sources,
                "--cov-context=test", "--cov-report=",
            )  # fmt: skip
            environment = {**os.environ, "COVERAGE_FILE": str(data_file)}
            _, out, errors = GROUPS.run(command, environment)
            assert data_file.exists(), out[-2000:] + errors[-2000:]
            data = coverage.CoverageData(str(data_file))
            data.read()
            lines = {
                Path(file).relative_to(ROOT).as_posix(): {
                    str(line): sorted({node_id(each) for each in contexts if each})
                    for line, contexts in data.contexts_by_lineno(file).items()
                }
                for file in sorted(data.measured_files())
            }
        return {"failing": failed_tests(out), "lines": lines}

    def running(self, mutant: Mutant) -> set[str]:
        """The tests that run the mutant's line in their own process."""
        assert self._lines is not None
        there = self._lines.get(mutant.file, {})
        return {test for line in range(mutant.lines[0], mutant.lines[1] + 1) for test in there.get(str(line), ())}

    def rounds(self, mutant: Mutant, *, is_mirror: bool) -> list[list[str]]:
        """What to run, one after another until something fails."""
        if mutant.lines == (0, 0):
            return [[self.folder]] if is_mirror else []
        self.measure()
        ran = self.running(mutant)
        stem = Path(mutant.file).stem
        direct = sorted(ran - set(self.failing), key=lambda test: (stem not in test, test))
        files = {test.partition("::")[0] for test in ran}
        if is_mirror:
            files |= {path.relative_to(ROOT).as_posix() for path in (ROOT / self.folder).rglob("test_*.py")}
        indirect = [each for each in sorted(files) if MARKER_OF_CHILDREN.search((ROOT / each).read_text("utf-8"))]
        return [each for each in (direct, indirect) if each]


def node_id(context: str) -> str:
    """Of a coverage context, without the phase, and without the group that xdist adds."""
    return re.sub(r"@[\w.-]+$", "", re.sub(r"\|(setup|run|teardown)$", "", context))


def failed_tests(output: str) -> list[str]:
    """Node ids from pytest's short summary."""
    found = (re.match(r"(?:FAILED|ERROR) (\S+::.+?)(?: - |$)", line) for line in output.splitlines())
    return sorted({node_id(each[1]) for each in found if each})


class Trial:
    """One mutant at a time, in processes of its own."""

    def __init__(self, seeds: SeedBaseline, tests: dict[str, TestBaseline]) -> None:
        self._seeds, self._tests = seeds, tests

    def by_seeds(self, mutant: Mutant) -> Finding:
        """Before it comes to the tests, a survivor is none yet."""
        running = self._seeds.running(mutant)
        said = ""
        if running:
            with _put_in(mutant) as (environment, _):
                said = self._by_seeds(running, environment)
        return Finding("seeds" if said else UNTESTED, said, len(running))

    def by_tests(self, mutant: Mutant, survived: Finding) -> Finding:
        with _put_in(mutant) as (environment, folder):
            said = self._by_tests(mutant, environment, folder)
        return Finding("tests" if said else "", said, survived.seeds_ran)

    def _by_seeds(self, seeds: Sequence[int], environment: dict[str, str]) -> str:
        cpu_s = CPU_FACTOR * self._seeds.cpu_s + CPU_MORE_S
        command = (*_python("tests.mutation.seeds"), "--only", _joined(seeds), "--cpu", f"{cpu_s:g}")
        code, out, errors = GROUPS.run(command, environment)
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        if code == 0:
            return ""
        if code < 0:
            return f"seed {seeds[len(lines)]}: it never ends"
        assert lines, f"no verdict: {errors[-2000:]}"
        return f"seed {lines[-1]['seed']}: {lines[-1]['violations'][0]}"

    def _by_tests(self, mutant: Mutant, environment: dict[str, str], folder: Path) -> str:
        for baseline, tests in self._rounds(mutant):
            code, out = self._pytest(tests, baseline.failing, environment, folder)
            failed = failed_tests(out)
            assert code != USAGE, f"pytest refused {tests[:3]}: {out[-2000:]}"
            if code in {0, 5}:
                continue
            if not failed:  # pytest itself broke or never ended: the tests could not even be gathered
                return f"the tests of {tests[0]} broke ({code})"
            if "Timeout" in out:
                return f"{failed[0]} (it never ends)"
            again, _ = self._pytest(failed[:1], [], environment, folder)
            if again not in {0, 5}:
                return failed[0]
            rest = [each for each in tests if each != failed[0]]
            code, out = self._pytest(rest, [*baseline.failing, failed[0]], environment, folder)
            if code not in {0, 5}:
                return (failed_tests(out) or ["?"])[0]
        return ""

    def _rounds(self, mutant: Mutant) -> Iterator[tuple[TestBaseline, list[str]]]:
        """The mirror of the mutant's room first."""
        folders = room_of(mutant.file).tests
        for folder in folders:
            for tests in self._tests[folder].rounds(mutant, is_mirror=folder == folders[0]):
                yield self._tests[folder], tests

    def _pytest(
        self, tests: Sequence[str], without: Sequence[str], environment: dict[str, str], folder: Path
    ) -> tuple[int, str]:
        listed = folder / "tests.txt"
        listed.write_text("".join(f"{each}\n" for each in tests), encoding="utf-8")
        deselected = [f"--deselect={each}" for each in without]
        command = (*_python("pytest"), "-x", *PYTEST, f"--timeout={TEST_S}", *deselected, f"@{listed}")
        code, out, _ = GROUPS.run(command, environment)
        return code, out


@contextmanager
def _put_in(mutant: Mutant) -> Iterator[tuple[dict[str, str], Path]]:
    """The environment of processes that have it, and a folder for what they need."""
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=OUT, prefix="trial-") as folder:
        job = Path(folder) / "mutant.json"
        changed = mutant.put_into((ROOT / mutant.file).read_bytes()).decode()
        job.write_text(json.dumps({"path": str(ROOT / mutant.file), "text": changed}), encoding="utf-8")
        path = os.pathsep.join(filter(None, (str(HOOK), os.environ.get("PYTHONPATH"))))
        yield {
            **os.environ, VARIABLE: str(job), "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": f"{folder}/hypothesis",
        }, Path(folder)  # fmt: skip


def _python(module: str) -> tuple[str, ...]:
    return sys.executable, "-m", module


def _joined(seeds: Sequence[int]) -> str:
    return ",".join(map(str, seeds))


class Groups:
    """The process groups at work. Threads wait for them; whoever stops the tool ends them all."""

    def __init__(self) -> None:
        self._pids: set[int] = set()

    def stop(self) -> None:
        for pid in list(self._pids):
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

    def run(self, command: Sequence[str], environment: dict[str, str]) -> tuple[int, str, str]:
        """In a process group of its own, which ends as a whole."""
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        ) as running:  # fmt: skip
            self._pids.add(running.pid)
            try:
                out, errors = running.communicate(timeout=WALL_S)
            except subprocess.TimeoutExpired:
                out, errors = "", ""
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGKILL)
                self._pids.discard(running.pid)
            return running.wait(), out, errors


GROUPS = Groups()
