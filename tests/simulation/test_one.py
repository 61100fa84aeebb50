"""One run by hand: exit codes, last lines, and the line that repeats it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from framework.core.window import Window
from tests.simulation.cluster import Cluster
from tests.simulation.failures.plan_text import written
from tests.simulation.one import main
from tests.simulation.plans.plan import draw
from tests.simulation.simulation import play


def run(words: Sequence[str]) -> int:
    try:
        return main(words)
    except SystemExit as error:  # argparse ends a program by raising
        return int(str(error.code))


def test_a_run_that_holds_ends_with_its_trace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    assert 0 == run(["--seed", "3", "--for", "10s", "--html", str(page)])

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("plan: seed=3 ")
    assert re.search(r" trace=[0-9a-f]{32}$", lines[-1])
    assert "Every promise held." in page.read_text(encoding="utf-8")


def test_the_same_seed_prints_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--seed", "9", "--for", "8s", "--faults", "cut,crash", "--apps", "3", "--brokers", "2"]
    run(arguments)
    first = capsys.readouterr().out
    run(arguments)

    assert first == capsys.readouterr().out
    assert "apps=3 brokers=2 faults=cut,crash" in first


@pytest.mark.parametrize("faults", ["all", "none"])
def test_all_faults_or_none(faults: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == run(["--seed", "1", "--for", "10s", "--faults", faults, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert [] == told["violations"]
    assert ("none" == faults) == (not told["faults"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--faults", "crush"], "--faults: no kind 'crush'; did you mean 'crash'?"),
        (["--faults", "earthquake"], "--faults: no kind 'earthquake'; known: "),
        (["--seed", "-1"], "argument --seed: '-1' is not a whole number from 0 to 1000000000000000000"),
        (["--seed", "nan"], "argument --seed: 'nan' is not a whole number"),
        (["--for", "0s"], "argument --for: '0s' is no time; write 10m, or leave it out"),
        (["--shrink-for", "0s"], "argument --shrink-for: '0s' is no time"),
    ],
)
def test_a_value_that_cannot_be_is_a_mistake_of_the_user(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 2 == run(words)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [("--for", "soon"), ("--apps", "0"), ("--apps", "-2"), ("--brokers", "0"), ("--brokers", "17")],
)
def test_a_figure_that_cannot_be_is_usage_and_no_broken_promise(
    words: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert 2 == run([*words])
    said = capsys.readouterr()
    assert "" == said.out
    assert words[0] in said.err
    assert words[1] in said.err


def test_a_page_that_cannot_be_written_is_said_before_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert 73 == run(["--for", "10s", "--html", "/nowhere/run.html"])
    said = capsys.readouterr()
    assert "" == said.out
    assert "--html '/nowhere/run.html': No such file or directory" in said.err


@pytest.fixture
def first_gap_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake that most seeds find, with few messages and no fault at all."""
    made = Cluster.__init__

    def mutated(self: Cluster, seed: int = 0, **options: object) -> None:
        made(self, seed, **{**options, "mutants": ("commits stop at the first gap",)})  # type: ignore[arg-type]

    monkeypatch.setattr(Cluster, "__init__", mutated)


@pytest.mark.usefixtures("first_gap_is_passed")
def test_a_broken_promise_is_exit_1_and_one_line_repeats_it(capsys: pytest.CaptureFixture[str]) -> None:
    right = Window.settle.__code__
    seeds = (seed for seed in range(5, 60) if run(["--seed", str(seed), "--for", "20s", "--apps", "3"]))
    seed = next(seeds)

    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("broken: ") for line in lines)
    assert f"python -m tests.simulation.one --seed {seed} --for 20s --apps 3" in lines
    assert any("BROKEN" in line for line in lines)
    assert right is Window.settle.__code__, "the mistake is gone"


def failing_plan() -> str:
    """One that fails with the mistake, and by nothing else: such a one is soon made small."""
    for seed in range(5, 60):
        plan = draw(seed, seconds=20.0)
        if {"a commit never passes a gap"} == {each.truth for each in play(plan)[0].violations}:
            return written(plan)
    raise AssertionError("no seed finds it")


@pytest.mark.slow
@pytest.mark.usefixtures("first_gap_is_passed")
def test_a_failure_is_made_small_and_its_line_fails_the_same_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert 1 == run(["--plan", failing_plan(), "--shrink-for", "5m"])
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert lines[0].startswith("plan: seed=")
    smallest = next(line for line in lines if line.startswith("smallest: "))
    assert " strikes=0 " in smallest or " strikes=1 " in smallest
    assert "runs: nothing more can be left out" in said.err
    broken = [line for line in lines if line.startswith("broken: ")]
    assert any(line.startswith("broken: a commit never passes a gap") for line in broken)
    assert 1 == sum(line.startswith("differs: fails with ") for line in lines)
    assert 1 == sum(line.startswith("differs: holds with ") for line in lines)
    replay = next(line for line in lines if line.startswith("python -m tests.simulation.one --plan "))
    holds = next(line.removeprefix("holds: ") for line in lines if line.startswith("holds: "))

    assert 1 == run(shlex.split(replay)[3:])
    again = capsys.readouterr().out.splitlines()
    assert broken == [line for line in again if line.startswith("broken: ")]
    assert replay in again
    assert lines[-1] == again[-1]
    assert 0 == run(shlex.split(holds)[3:])


@pytest.mark.usefixtures("first_gap_is_passed")
def test_a_failure_is_made_small_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan, page = tmp_path / "plan.json", tmp_path / "run.html"
    plan.write_text(failing_plan(), encoding="utf-8")
    assert 1 == run(["--plan", str(plan), "--shrink-for", "1ms", "--json", "--html", str(page)])
    told = json.loads(capsys.readouterr().out)
    shrunk = told["shrunk"]
    assert not shrunk["is_finished"]
    assert "a commit never passes a gap" in {each["truth"] for each in told["violations"]}
    assert shrunk["plan"]["seed"] == told["seed"]
    assert shlex.split(shrunk["replay"])[:4] == ["python", "-m", "tests.simulation.one", "--plan"]
    assert (shrunk["holds"] is None) == (shrunk["differs"] is None)
    assert "--plan" in page.read_text(encoding="utf-8")


def test_a_run_that_holds_is_not_made_small(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == run(["--seed", "3", "--for", "8s", "--shrink"])
    said = capsys.readouterr()
    assert "shrink: the run holds, so there is nothing to make smaller" in said.err
    assert said.out.splitlines()[-1].startswith("run: seed=3 violations=0 ")
    assert "smallest" not in said.out


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("--plan", "{}"), 78, "--plan: kinds"),
        (("--plan", "nowhere.json"), 2, "neither JSON nor a file"),
        (("--plan", "{}", "--seed", "3"), 2, "--plan says what --seed says"),
        (("--plan", "{}", "--for", "3s"), 2, "--plan says what --for says"),
    ],
)
def test_a_plan_that_is_none_is_an_error_of_the_user(
    words: tuple[str, ...], code: int, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code == run([*words])
    said = capsys.readouterr()
    assert "" == said.out
    assert error in said.err
