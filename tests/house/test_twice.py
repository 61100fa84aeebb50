"""`.ci/twice`: what fails at first is named last, and only two tests and two fresh seeds may."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TWICE = Path(__file__).parents[2] / ".ci" / "twice"

PASSING = "def test_passes():\n    pass\n"
FAILING = "def test_fails():\n    assert False\n"
FLAKY = """
import pathlib, pytest

@pytest.mark.parametrize("number", range({count}))
def test_fails_once(number):
    mark = pathlib.Path(__file__).with_name(f"seen-{{number}}")
    seen = mark.exists()
    mark.touch()
    assert seen
"""


def twice(folder: Path, source: str) -> tuple[int, str]:
    """The exit code, and what was printed to the end."""
    (folder / "test_it.py").write_text(source)
    command = [sys.executable, str(TWICE), sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir=.", "."]
    names = {"FAILED_FIRST": str(folder / "names.txt")}
    ended = subprocess.run(command, cwd=folder, env=os.environ | names, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout


def failed_first(output: str) -> list[str]:
    return re.findall(r"^failed first: (\S+) \(--randomly-seed=\d+\)$", output, re.MULTILINE)


def test_a_run_without_failures_names_nothing(tmp_path: Path) -> None:
    assert (0, []) == ((ended := twice(tmp_path, PASSING))[0], failed_first(ended[1]))


@pytest.mark.parametrize("count", [1, 2])
def test_two_that_fail_once_are_named_last_and_pass(tmp_path: Path, count: int) -> None:
    code, output = twice(tmp_path, FLAKY.format(count=count))

    assert 0 == code
    assert output.splitlines()[-count:] == [line for line in output.splitlines() if line.startswith("failed first: ")]
    assert [f"test_it.py::test_fails_once[{number}]" for number in range(count)] == failed_first(output)


def test_a_third_that_fails_once_fails_the_run(tmp_path: Path) -> None:
    """A race that is lost once in a run must not stay unseen because it is won when run alone."""
    code, output = twice(tmp_path, FLAKY.format(count=3))

    assert (1, 3) == (code, len(failed_first(output)))


def test_names_of_earlier_runs_of_the_same_make_test_count(tmp_path: Path) -> None:
    assert 0 == twice(tmp_path, FLAKY.format(count=2))[0]

    code, output = twice(tmp_path, FLAKY.format(count=3))  # the first two pass now

    assert (1, 3) == (code, len(failed_first(output)))


def test_what_fails_twice_fails_the_run(tmp_path: Path) -> None:
    code, output = twice(tmp_path, FAILING)

    assert (1, ["test_it.py::test_fails"]) == (code, failed_first(output))


SEEDS = """
import os

def test_fresh():
    with open(os.environ["FAILED_FIRST"], "a") as names:
        names.writelines(f"fresh seed {{number}}: nothing lost\\n" for number in range({count}))
"""


@pytest.mark.parametrize(("count", "ends"), [(2, 0), (3, 1)])
def test_two_fresh_seeds_that_fail_are_named_last_and_a_third_fails_the_run(
    tmp_path: Path, count: int, ends: int
) -> None:
    code, output = twice(tmp_path, SEEDS.format(count=count))

    assert ends == code
    assert output.splitlines()[-1] == f"failed first: fresh seed {count - 1}: nothing lost"
