"""A mutant in a process and its children, against seeds and against tests; what is kept of it, and what is told."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mutation import __main__ as command
from tests.mutation import trials
from tests.mutation.drawing import ROOT
from tests.mutation.hook.sitecustomize import VARIABLE
from tests.mutation.operators import Mutant, mutants_of
from tests.mutation.report import Outcome, figures, lines_of
from tests.mutation.trials import HOOK, UNTESTED, Finding, SeedBaseline, TestBaseline, Trial, failed_tests, node_id

FILE = "framework/core/window.py"


@pytest.fixture
def put_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the tool writes is this test's own."""
    monkeypatch.setattr(trials, "OUT", tmp_path)
    monkeypatch.setattr(command, "RESULTS", tmp_path / "results.jsonl")
    return tmp_path


def fake(line: int, *, room: str = "core", by: str = "", lines: tuple[int, int] | None = None) -> Outcome:
    mutant = Mutant(FILE, "work", "flag turned", line, lines or (line, line), 0, 0, b"", "True", f"{line}")
    return Outcome(mutant, room, Finding(by, "somehow", 3))


def test_a_process_and_its_children_have_the_mutant_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "house").mkdir()
    (tmp_path / "house/__init__.py").write_text("")
    (tmp_path / "house/room.py").write_text("SIZE = 1\n")
    (tmp_path / "house/other.py").write_text("SIZE = 1\n")
    job = tmp_path / "job.json"
    job.write_text(json.dumps({"path": str(tmp_path / "house/room.py"), "text": "SIZE = 2\n"}))
    look = "from house import other, room; print(other.SIZE, room.SIZE)"
    child = f"import subprocess, sys; {look}; subprocess.run([sys.executable, '-c', {look!r}], check=True)"
    environment = {
        **os.environ, VARIABLE: str(job), "PYTHONPATH": f"{HOOK}{os.pathsep}{tmp_path}", "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip

    done = subprocess.run([sys.executable, "-c", child], env=environment, capture_output=True, text=True, check=True)
    assert ["1 2", "1 2"] == sorted(done.stdout.splitlines())
    assert [] == list(tmp_path.rglob("*.pyc"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_seeds_find_a_mistake_that_they_run(put_out: Path) -> None:
    """The low end of a window never moves: nothing is ever committed."""
    seeds = SeedBaseline(1000, 2)
    seeds.measure()
    trial = Trial(seeds, {})
    mutants = mutants_of("framework/core/offsets.py", (ROOT / "framework/core/offsets.py").read_bytes())
    advance = next(each for each in mutants if each.function == "OffsetTable.advance" and seeds.running(each))

    finding = trial.by_seeds(advance)
    assert ("seeds", 2) == (finding.by, finding.seeds_ran)
    assert finding.detail.startswith("seed 1000: ")
    assert not list(put_out.glob("trial-*"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_a_seed_breaks_with_or_never_ends_is_found(put_out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that changes nothing survives every seed, each with its own limit of processor time."""
    file = "framework/core/queue_flow.py"
    source = (ROOT / file).read_bytes()
    at = source.index(b"class QueueFlow")
    seeds = SeedBaseline(1000, 2)
    seeds.measure()

    def found(new: bytes) -> str:
        mutant = Mutant(file, "", "flag turned", 1, (0, 0), at, at, new, "", "")
        return Trial(seeds, {}).by_seeds(mutant).detail

    assert "" == found(b"# A word.\n")
    assert "seed 1000: the run broke: ZeroDivisionError: division by zero" == found(b"1 / 0\n")
    monkeypatch.setattr(trials, "CPU_MORE_S", 1)
    monkeypatch.setattr(trials, "CPU_FACTOR", 1)
    assert "seed 1000: it never ends" == found(b"while True: ...\n")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_mistake_that_no_seed_runs_goes_to_the_tests(put_out: Path) -> None:
    seeds = SeedBaseline(1000, 1)
    seeds.measure()
    mutants = mutants_of("framework/core/offset_file.py", (ROOT / "framework/core/offset_file.py").read_bytes())
    unseen = next(each for each in mutants if not seeds.running(each))

    assert not seeds.running(unseen)
    assert seeds.imports("framework/core/window.py")
    assert not seeds.imports("plugins/outbox/framework_outbox/relay.py")


class OneFolder(TestBaseline):
    """A folder's tests of which these run the line."""

    def __init__(self, tests: list[str], failing: tuple[str, ...] = ()) -> None:
        super().__init__("tests/core")
        self.failing = list(failing)
        self._tests = tests

    def rounds(self, mutant: Mutant, *, is_mirror: bool) -> list[list[str]]:
        return [self._tests] if is_mirror and self._tests else []


def by_tests(pick: Callable[[Mutant], bool], *tests: str, failing: tuple[str, ...] = ()) -> Finding:
    mutants = mutants_of("framework/core/backoff.py", (ROOT / "framework/core/backoff.py").read_bytes())
    folders = dict.fromkeys(("tests/core", "tests/services", "tests/scenarios"), OneFolder(list(tests), failing))
    return Trial(SeedBaseline(0), dict(folders)).by_tests(next(filter(pick, mutants)), Finding(UNTESTED, "", 7))


def test_a_test_finds_a_mistake_and_is_named(put_out: Path) -> None:
    finding = by_tests(lambda mutant: mutant.operator == "min for max", "tests/core/test_backoff.py")

    assert ("tests", 7) == (finding.by, finding.seeds_ran)
    assert finding.detail.startswith("tests/core/test_backoff.py::")


def test_tests_that_do_not_look_leave_a_survivor(put_out: Path) -> None:
    assert "" == by_tests(lambda mutant: mutant.operator == "min for max", "tests/core/test_bucket.py").by


def test_what_failed_is_read_from_the_summary() -> None:
    out = "FAILED tests/a.py::test_b[1-2] - assert 1 == 2\nERROR tests/a.py::test_c\nFAILED tests/a.py::test_b[1-2]\n"

    assert ["tests/a.py::test_b[1-2]", "tests/a.py::test_c"] == failed_tests(out)


def test_a_context_names_a_test() -> None:
    assert "tests/a.py::test_b[x@y]" == node_id("tests/a.py::test_b[x@y]@group|run")
    assert "tests/a.py::test_b[x || y]" == node_id("tests/a.py::test_b[x || y]|setup")


def test_figures() -> None:
    outcomes = [
        fake(1, by="seeds"), fake(2, by="tests"), fake(3), fake(4, room="wire", by="tests"),
        Outcome(fake(5).mutant, "core", why="it is only a figure for the log"),
    ]  # fmt: skip
    seen = figures(outcomes)

    assert (4, 3, 3, 1, False) == (seen.mistakes, seen.found, seen.at_heart, seen.by_seeds, seen.holds)
    assert figures([fake(1, by="seeds"), fake(2, room="wire", by="tests")]).holds
    assert not figures([fake(1, by="tests"), fake(2, by="tests")]).holds
    assert figures([]).holds


def test_what_is_told_in_the_end() -> None:
    told = list(lines_of([fake(1, by="seeds"), fake(2, by="tests"), fake(3)]))

    assert "survived:" == told[0]
    assert "  framework/core/window.py:3 work: flag turned (3 seeds run it)" == told[1]
    assert ["    - True", "    + 3"] == told[2:4]
    assert "found by tests and by no seed:" == told[4]
    assert "core                    3           0      1      1         1" == told[9]
    assert "mutate: found by seeds and tests: 2 of 3, 67 % (at least 95 %)" == told[-2]
    assert told[-1].endswith("found by seeds alone: 1 of 3, 33 % (at least 60 %)")


def test_a_run_that_was_stopped_goes_on(put_out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is measured or tried twice; what is known to be no mistake is not tried at all."""
    mutants = [fake(line).mutant for line in range(1, 5)]
    tried: list[int] = []

    class Tried:
        def by_seeds(self, mutant: Mutant) -> Finding:
            tried.append(mutant.line)
            return Finding(UNTESTED, "", 5)

        def by_tests(self, mutant: Mutant, survived: Finding) -> Finding:
            tried.append(-mutant.line)
            return Finding("tests", "somehow", survived.seeds_ran)

    monkeypatch.setattr(command, "draw", lambda count, base, **_: mutants[:count])
    monkeypatch.setattr(command, "equivalents", lambda: {mutants[0].key: "only a figure for the log"})
    monkeypatch.setattr(command, "_measured", lambda *_: Tried())
    for count in (3, 4):
        told = io.StringIO()
        outcomes = command.mutate(count, 9, 1, tell=told)

    assert [2, 3, -2, -3, 4, -4] == tried
    assert ["equivalent"] + ["tests"] * 3 == [each.line().split()[0] for each in outcomes]
    assert told.getvalue().startswith("mutate: base=9 mutants=4 seeds=")
    assert command.mutate(4, 10, 1, tell=told)
    assert 12 == len(tried)


def test_the_base_is_the_day() -> None:
    assert 20_000_000 < command.day() < 99_999_999


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
def test_forty_mistakes_of_the_day_are_found() -> None:
    """Fewer than the 200 that the figures in docs/simulation.md stand on: by chance alone it may fall below a bar."""
    told = io.StringIO()
    outcomes = command.mutate(40, command.day(), os.cpu_count() or 1, tell=told)

    assert figures(outcomes).holds, told.getvalue()
