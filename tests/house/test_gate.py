"""`.ci/gate`: each stage runs, three chances for a test, and an end that says what failed."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.turns import turn

ROOT = Path(__file__).parents[2]
FAILS_AT_FIRST = """
import pathlib

def test_stumbles():
    mark = pathlib.Path(__file__).with_name("runs")
    runs = len(mark.read_text()) if mark.exists() else 0
    mark.write_text("x" * (runs + 1))
    assert runs >= {times}, f"run {{runs}} of it"

def test_holds():
    pass
"""

THIRTY_FAIL = """
import pathlib
import pytest

@pytest.mark.parametrize("number", range(30))
def test_fails(number):
    with pathlib.Path("ran").open("a") as file:
        file.write("x")
    assert number < 0
"""

GROUP = """
import os
import pathlib
import pytest

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", range(6))
def test_notes_who_runs_it(number):
    with pathlib.Path(__file__).with_name("by").open("a") as file:
        file.write(f"{os.getpid()} ")
"""


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("gate", str(ROOT / ".ci" / "gate"))
    spec = importlib.util.spec_from_loader("gate", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gate", module)  # its dataclasses ask for it
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader.exec_module(module)
    monkeypatch.setattr(module, "NOTES", tmp_path / "notes")
    (tmp_path / "faker.py").write_text("raise ImportError\n")  # pytest-randomly would import it: half of a start
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # what suite() names is enough, and half as slow
    return module


def test_what_needs_a_cluster_is_where_its_stage_looks() -> None:
    tests = [path for folder in ("tests", "plugins", "example_app") for path in (ROOT / folder).rglob("test_*.py")]
    elsewhere = [path for path in tests if ROOT / "tests/interop" not in path.parents and path != Path(__file__)]
    assert [] == [str(path) for path in elsewhere if "mark.interop" in path.read_text(encoding="utf-8")]


def suite(gate: ModuleType, folder: Path, source: str, *options: str) -> Any:
    """A stage with one file of tests."""
    tests = folder / "suite"
    tests.mkdir()
    (tests / "test_it.py").write_text(source)
    (tests / "empty.ini").write_text("[pytest]\n")
    here = ["-q", "-p", "randomly", "-p", "xdist", "-c", str(tests / "empty.ini"), f"--rootdir={tests}"]
    pytest_there = [sys.executable, "-m", "pytest", *here]
    stage = gate.Stage("tests")
    folder_before = Path.cwd()
    os.chdir(tests)
    try:
        gate.suite(stage, pytest_there, "not slow", [], options)
    finally:
        os.chdir(folder_before)
    return stage


def test_what_holds_is_counted_and_named_nowhere(gate: ModuleType, tmp_path: Path) -> None:
    stage = suite(gate, tmp_path, "def test_holds():\n    pass\n")
    assert ("1 passed", {}) == (stage.counts, stage.lines)


@pytest.mark.parametrize("times", [1, 2])
def test_one_that_passes_at_its_second_or_third_chance_is_flaky(gate: ModuleType, tmp_path: Path, times: int) -> None:
    stage = suite(gate, tmp_path, FAILS_AT_FIRST.format(times=times))

    (line,) = stage.lines["flaky"]
    assert line.startswith("test_it.py::test_stumbles: test_it.py:8: AssertionError: run 0 of it")
    assert not stage.has_failed
    assert "1 failed, 1 passed" == stage.counts


@pytest.mark.parametrize("options", [(), ("-n", "2", "--dist", "loadgroup")])
def test_three_of_three_fail_the_stage(gate: ModuleType, tmp_path: Path, options: tuple[str, ...]) -> None:
    grouped = "import pytest\npytestmark = pytest.mark.xdist_group('one')\n"
    stage = suite(gate, tmp_path, grouped + FAILS_AT_FIRST.format(times=3), *options)

    (line,) = stage.lines["failed"]
    assert line.startswith("test_it.py::test_stumbles: test_it.py:10: AssertionError: run 0 of it")
    assert 3 == len((tmp_path / "suite" / "runs").read_text())


def test_a_group_is_run_by_one_process(gate: ModuleType, tmp_path: Path) -> None:
    """What its tests share is started once. A pytest too new for pytest-xdist spreads them without a word."""
    stage = suite(gate, tmp_path, GROUP, "-n", "2", "--dist", "loadgroup")
    assert {} == stage.lines
    assert 1 == len(set((tmp_path / "suite" / "by").read_text().split()))


def test_what_takes_long_begins_first_and_groups_next(request: pytest.FixtureRequest) -> None:
    assert 2 == turn(request.node)
    request.node.add_marker(pytest.mark.xdist_group("one"))
    assert 1 == turn(request.node)
    request.node.add_marker("long")
    assert 0 == turn(request.node)


def test_a_file_that_cannot_be_read_has_one_chance(gate: ModuleType, tmp_path: Path) -> None:
    stage = suite(gate, tmp_path, "import nothing_of_this_name\n")
    assert any("nothing_of_this_name" in line for line in stage.lines["failed"])


def test_many_failures_are_no_chance(gate: ModuleType, tmp_path: Path) -> None:
    stage = suite(gate, tmp_path, THIRTY_FAIL)
    assert 30 == len(stage.lines["failed"]) == len((tmp_path / "suite" / "ran").read_text())


def test_a_pytest_that_breaks_off_fails_the_stage(gate: ModuleType, tmp_path: Path) -> None:
    stage = suite(gate, tmp_path, "import os\n\ndef test_it():\n    os._exit(9)\n")
    assert ["tests: pytest ended with 9"] == stage.lines["failed"]


def test_what_cannot_run_here_is_named(gate: ModuleType, tmp_path: Path) -> None:
    source = "from tests.notes import note\n\ndef test_it():\n    note(not_run='cluster: no Java')\n"
    assert {"not run": ["cluster: no Java"]} == suite(gate, tmp_path, source).lines


@pytest.mark.parametrize("is_ci", [False, True])
def test_an_interpreter_that_is_not_there_is_named_and_fails_in_ci(
    gate: ModuleType, monkeypatch: pytest.MonkeyPatch, is_ci: bool
) -> None:
    monkeypatch.setattr(gate, "IS_CI", is_ci)
    monkeypatch.chdir(ROOT)
    stage = gate.Stage("3.99")
    gate.elsewhere("3.99")(stage, [])

    assert {"not run": ["python3.99: not found; install it, as python3.99 on the path or by pyenv"]} == stage.lines
    assert is_ci is stage.has_failed


def test_a_wheel_that_does_not_work_is_named(gate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "smoke").write_text("echo wrote desk/README.md; echo 'error: no module pluggy'; exit 70")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gate, "INSTALLING_PAUSE_S", 0)
    stage = gate.Stage("wheel")
    gate.STAGES["wheel"](stage, [])

    assert {"failed": ["wheel: error: no module pluggy"]} == stage.lines


# -- the end


def test_all_stages_run_whatever_failed_and_the_end_names_it(
    gate: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(stage: Any, arguments: list[str]) -> None:
        stage.add("failed", f"{stage.name}: with {arguments}\nand more")

    def finds(stage: Any, _arguments: list[str]) -> None:
        stage.add("found", "seed 5: nothing lost; make sim")

    monkeypatch.setattr(gate, "STAGES", {"first": fails, "second": fails, "fresh": finds})
    assert 0 == gate.main(["begin"])
    assert 1 == gate.main(["first", "second", "--", "-x"])
    assert 0 == gate.main(["fresh"])
    capsys.readouterr()

    assert 1 == gate.main(["sum"])
    assert [
        "stage first: failed, 0 s", "stage second: failed, 0 s", "stage fresh: ok, 0 s",
        "found: seed 5: nothing lost; make sim",
        "failed: first: with ['-x'] and more", "failed: second: with ['-x'] and more",
    ] == capsys.readouterr().out.splitlines()[1:]  # fmt: skip
    assert 0 == gate.main(["begin"])
    assert 0 == gate.main(["sum"])


def test_a_run_says_once_what_failed(tmp_path: Path) -> None:
    """The steps of `.ci/run` are commands of their own, which say it where they are run alone."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    at_once = (ROOT / ".ci" / "gate").read_text().replace("INSTALLING_PAUSE_S = 3, 10", "INSTALLING_PAUSE_S = 1, 0")
    (tmp_path / ".ci" / "gate").write_text(at_once)
    make = tmp_path / "make"
    make.write_text(
        '#!/bin/sh\ncase "$1" in check) exec "$PYTHON" .ci/gate check;; -s) echo "error: no docs"; exit 1;; esac\n'
    )
    make.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"

    def said(*command: str) -> list[str]:
        outer = {name: value for name, value in os.environ.items() if not name.startswith("GATE_")}  # a gate runs us
        environment = {**outer, "PATH": path, "PYTHON": sys.executable}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert 1 == done.returncode
        return [line for line in done.stdout.splitlines() if line.startswith("failed: ")]

    whole, alone = said("bash", ".ci/run"), said(sys.executable, ".ci/gate", "check")
    assert "failed: docs: error: no docs" in alone
    assert len(set(whole)) == len(whole)
    assert set(alone) < set(whole), "and that the jars could not be brought"


def test_a_test_that_fails_everywhere_is_one_line(gate: ModuleType) -> None:
    stages = [gate.Stage(name, lines={"failed": ["tests/test_it.py: no"]}) for name in ("3.12", "tests")]
    assert ["failed: tests/test_it.py: no"] == gate.end_lines(stages)[2:]


def test_the_end_is_forty_lines_at_most(gate: ModuleType) -> None:
    kinds = [{kind: [f"{kind} {name} {number}" for number in range(50)] for kind in gate.SHOWN} for name in gate.STAGES]
    stages = [gate.Stage(name, lines=lines) for name, lines in zip(gate.STAGES, kinds, strict=True)]
    lines = gate.end_lines(stages)
    assert len(lines) + 1 <= 40  # an empty line comes first
    assert lines[-1].startswith(f"failed: and {50 * len(gate.STAGES) - gate.SHOWN['failed']} more, in ")


def test_a_stage_that_is_not_there_is_refused(gate: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == gate.main(["tets"])
    assert "no stage ['tets']; there are setup, java" in capsys.readouterr().err


def test_what_installs_is_tried_three_times_and_named(
    gate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "INSTALLING_PAUSE_S", 0)
    tried = tmp_path / "tried"
    stage = gate.Stage("java")
    fails = ("sh", "-c", f"echo x >> {tried}; echo 'error: no jars today'; exit 3")
    gate.installing(jars=fails, browser=("true",))(stage, [])
    assert ["jars: could not be installed: error: no jars today"] == stage.lines["failed"]
    assert 3 == len(tried.read_text().split())


def test_what_tools_say_is_shown_without_the_rest(gate: ModuleType) -> None:
    output = "framework/a.py:3:1: F401 unused\nFound 1 error.\n"
    assert ["framework/a.py:3:1: F401 unused", "Found 1 error."] == gate.telling(output, 3)
    assert ["it said nothing"] == gate.telling("\n", 3)


def test_a_run_of_the_tests_leaves_nothing_to_chance() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^GATE_BASE := \d+$", makefile, re.MULTILINE)
    unsteady = [
        line
        for path in (ROOT / folder for folder in ("tests", "plugins", "example_app"))
        for file in path.rglob("test_*.py")
        for line in file.read_text(encoding="utf-8").splitlines()
        if re.search(r"^\s*(@|pytestmark = )pytest\.mark\.unsteady", line)
    ]
    assert len(unsteady) <= 10, "mend some first: CONTRIBUTING says why"
