"""`.github/workflows`: they parse, start what is there, and publish only what was tried as users install it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs import words

ROOT = Path(__file__).parents[2]
PATHS = sorted((ROOT / ".github" / "workflows").glob("*"))
MACHINES = {"apt-get", "git", "ls", "pip", "python", "uv"}
"""Commands that the machines of these workflows have, or get in a step before."""


def workflow(name: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())
    return read


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in workflow(path.stem)["jobs"].values() for step in job.get("steps", ())]


def commands(of: list[dict[str, Any]]) -> list[list[str]]:
    return [shlex.split(line) for step in of for line in words.lines(step.get("run", ""))]


def distributions() -> list[str]:
    """The folder of each."""
    return [".", *sorted(f"plugins/{path.parent.name}" for path in ROOT.glob("plugins/*/pyproject.toml"))]


def test_they_are_what_the_machines_read() -> None:
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.github-workflows",
        *map(str, PATHS),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_what_they_start_is_there(path: Path) -> None:
    for first, *rest in commands(steps(path)):
        if first.startswith(".ci/"):
            assert os.access(ROOT / first, os.X_OK), first
        elif first == "make":
            assert words.mistake(shlex.join([first, *rest])) is None
        else:
            assert first in MACHINES, f"{first} {rest}"
    for job in workflow(path.stem)["jobs"].values():
        if "uses" in job:
            assert (ROOT / job["uses"]).is_file()


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_an_action_and_what_they_install_is_of_one_version(path: Path) -> None:
    used = [step["uses"] for step in steps(path) if "uses" in step]
    installed = [rest[1] for first, *rest in commands(steps(path)) if (first, rest[:1]) == ("pip", ["install"])]
    assert used
    assert [] == [each for each in used if not re.fullmatch(r"[\w/-]+@v\d+\.\d+\.\d+", each)]
    assert [] == [each for each in installed if not re.fullmatch(r"\w+==[\d.]+", each)]


def test_every_interpreter_that_we_name_is_tested() -> None:
    """By the first all tests are run, by the others those stages of `make test` that fail in CI without them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [re.search(r"Python :: (\d\.\d+)$", each) for each in project["classifiers"]]
    floor, *others = [found[1] for found in named if found]
    (row,) = workflow("ci")["jobs"]["run"]["strategy"]["matrix"]["include"]
    (stages,) = re.findall(r"^test: setup\n\t@\$\(GATE\) (.*) --", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert f">={floor}" == project["requires-python"]
    assert row["image"].startswith(f"python:{floor}-")
    begun = stages.split()
    assert others == row["others"].split() == [stage for stage in begun if stage[0].isdigit()]
    assert "wheel" in begun
    assert "true" == workflow("ci")["jobs"]["run"]["env"]["CI"]
    assert [".ci/run"] in commands(workflow("ci")["jobs"]["run"]["steps"])


def test_a_release_has_each_distribution_and_tries_it_before_it_is_kept() -> None:
    jobs = workflow("release")["jobs"]
    begun = [each.get("run") or each["uses"] for each in jobs["build"]["steps"]]
    built = [rest[-1] for _, *rest in commands(jobs["build"]["steps"]) if rest[:2] == ["-m", "build"]]
    (tried,) = [number for number, each in enumerate(begun) if each == ".ci/smoke dist/*.whl"]
    (kept,) = [number for number, each in enumerate(begun) if each.startswith("actions/upload-artifact@")]

    assert distributions() == built
    assert tried < kept
    assert ["ci", "build"] == jobs["publish"]["needs"]


def test_one_job_alone_may_publish_and_there_is_no_token() -> None:
    allowed = [
        (path.stem, name)
        for path in PATHS
        for name, job in workflow(path.stem)["jobs"].items()
        if "id-token" in job.get("permissions", {})
    ]
    assert [("release", "publish")] == allowed
    assert all({"contents": "read"} == workflow(path.stem)["permissions"] for path in PATHS)
    assert not [path for path in PATHS if "secrets" in path.read_text() or "password" in path.read_text()]
