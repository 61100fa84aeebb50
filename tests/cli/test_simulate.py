"""framework-app simulate: exit codes and last lines as CONTRACTS has them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from framework import marks
from framework.cli.main import run
from framework.testing.swarm.cluster import Cluster


def test_a_run_that_holds_ends_with_its_trace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    assert 0 == run(["simulate", "--seed", "3", "--for", "10s", "--html", str(page)])

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("plan: seed=3 ")
    assert re.search(r" trace=[0-9a-f]{32}$", lines[-1])
    assert "Every promise held." in page.read_text(encoding="utf-8")


def test_the_same_seed_prints_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["simulate", "--seed", "9", "--for", "8s", "--faults", "cut,crash", "--apps", "3", "--brokers", "2"]
    run(arguments)
    first = capsys.readouterr().out
    run(arguments)

    assert first == capsys.readouterr().out
    assert "apps=3 brokers=2 faults=cut,crash" in first


@pytest.mark.parametrize("faults", ["all", "none"])
def test_all_faults_or_none(faults: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == run(["simulate", "--seed", "1", "--for", "10s", "--faults", faults, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert [] == told["violations"]
    assert ("none" == faults) == (not told["faults"])


def test_an_unknown_fault_is_a_mistake_of_the_user(capsys: pytest.CaptureFixture[str]) -> None:
    assert 78 == run(["simulate", "--faults", "crush"])
    assert "did you mean 'crash'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [("--for", "soon"), ("--apps", "0"), ("--apps", "-2"), ("--brokers", "0"), ("--brokers", "17")],
)
def test_a_figure_that_cannot_be_is_usage_and_no_broken_promise(
    words: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert 2 == run(["simulate", *words])
    said = capsys.readouterr()
    assert "" == said.out
    assert words[0] in said.err
    assert words[1] in said.err


def test_a_page_that_cannot_be_written_is_said_before_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert 73 == run(["simulate", "--for", "10s", "--html", "/nowhere/run.html"])
    said = capsys.readouterr()
    assert "" == said.out
    assert "--html '/nowhere/run.html': No such file or directory" in said.err


def test_a_broken_promise_is_exit_1_and_one_line_repeats_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Cluster.__init__

    def mutated(self: Cluster, seed: int = 0, **options: object) -> None:
        made(self, seed, **{**options, "mutants": ("commits stop at the first gap",)})  # type: ignore[arg-type]

    monkeypatch.setattr(Cluster, "__init__", mutated)
    seeds = (seed for seed in range(5, 60) if run(["simulate", "--seed", str(seed), "--for", "20s", "--apps", "3"]))
    seed = next(seeds)

    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("broken: ") for line in lines)
    assert f"framework-app simulate --seed {seed} --for 20s --apps 3" in lines
    assert any("BROKEN" in line for line in lines)
    assert marks.safeguard("commits stop at the first gap")
