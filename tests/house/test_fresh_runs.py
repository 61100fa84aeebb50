"""`make fresh`: what each kind of chance finds is a line with the command that repeats it, and none is silent."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from tests import fresh
from tests.fresh import Fresh
from tests.patience import wait_until

FAILED_SEED = {"seed": 7, "truth": "nothing lost", "fact": "m1", "at": 3.0, "command": "long", "plan": {}}


class Told(Fresh):
    """A run whose programs answer what a test says."""

    answers: ClassVar[tuple[int | None, str]] = (0, "")
    files: ClassVar[dict[str, str]] = {}

    def _call(
        self, command: Sequence[str], limit_s: float, variables: dict[str, str] | None = None
    ) -> tuple[int | None, str]:
        for name, text in self.files.items():
            (self.folder / name).write_text(text)
        return self.answers


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    monkeypatch.setattr(fresh, "ROOT", tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").touch()
    monkeypatch.setattr(Told, "answers", (0, ""))
    monkeypatch.setattr(Told, "files", {})
    return Told(5, 2, tmp_path)


def test_a_seed_that_fails_is_kept_and_repeated_by_its_number(run: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Told, "files", {"seeds.jsonl": f"{json.dumps(FAILED_SEED)}\n"})
    monkeypatch.setattr(Told, "answers", (1, ""))
    assert ["seed 7: nothing lost: m1; python -m tests.simulation.one --seed 7"] == list(run.seeds(10))
    assert FAILED_SEED == json.loads((run.folder / "build" / "failing-seeds.jsonl").read_text())


def test_a_test_that_fails_is_repeated_with_its_files_order_and_examples(
    run: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Told, "files", {"notes": json.dumps({"failed": "tests/test_one.py::test_a", "error": "E"})})
    monkeypatch.setattr(Told, "answers", (1, ""))
    (found,) = run.tests(10)
    assert found.startswith("tests/test_one.py::test_a: E; FRESH_BASE=5 .venv/bin/python -m pytest ")
    assert found.endswith(" --randomly-seed=5 --hypothesis-seed=5 tests/test_one.py")


@pytest.mark.parametrize("line", ["frame: runs=9 crashes=1 slowest_ms=0", "frame: runs=9 crashes=0 TOO SLOW"])
def test_an_input_that_crashes_or_is_slow_is_found(run: Told, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setattr(Told, "answers", (1, f"{line}\nbodies: runs=9 crashes=0 slowest_ms=0\n"))
    assert [f"fuzz {line}; make fuzz TARGET=frame SECONDS=60"] == list(run.inputs(12))


def test_a_mistake_that_survives_is_found(run: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Told, "answers", (1, "1/2 seeds framework/a.py:3 x\n2/2 SURVIVED framework/b.py:4 y\n"))
    assert ["mistake in framework/b.py:4 survives; make mutate MUTANTS=2 BASE=5"] == list(run.mistakes(120))


@pytest.mark.parametrize("kind", ["seeds", "tests", "inputs", "mistakes"])
def test_what_breaks_off_is_found_and_what_is_over_its_time_is_not(
    run: Told, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    for code, found in ((3, 1), (None, 0), (0, 0)):
        monkeypatch.setattr(Told, "answers", (code, ""))
        assert found == len(list(getattr(run, kind)(60)))


def test_what_is_over_its_time_ends_with_all_that_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh, "GRACE_S", 2.0)
    lock = tmp_path / "lock"
    child = f"import fcntl, time; file = open({str(lock)!r}, 'w'); fcntl.flock(file, fcntl.LOCK_EX); time.sleep(3600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    code, _ = Fresh(5, 1, tmp_path)._call([sys.executable, "-c", parent], 2.0)
    assert code is None

    def is_free() -> bool:
        with lock.open("a") as file:  # made here, if the child had no time to
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    wait_until(is_free, "the child is gone")


def test_the_base_comes_first_and_the_code_says_whether_anything_was_found(tmp_path: Path) -> None:
    begun = subprocess.Popen(
        [sys.executable, "-m", "tests.fresh", "--for", "1s", "--base", "12"],
        cwd=fresh.ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    with begun:
        assert begun.stdout is not None
        assert "fresh: base=12 for 1s\n" == begun.stdout.readline()
        begun.terminate()
    wait_until(lambda: begun.poll() is not None)
