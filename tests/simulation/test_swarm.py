"""The swarm: seeds held against every truth, the lines that CONTRACTS names, and generators that are not blind."""

from __future__ import annotations

import os
import re
import time
from itertools import count, islice
from pathlib import Path

import pytest

import framework
from framework.testing.errors import Violation
from framework.testing.swarm.__main__ import KEPT_SEEDS, Run, complaints, kept_runs, main, run_all, swarm
from framework.testing.swarm.expected_marks import ELSEWHERE, EXPECTED, SELDOM
from framework.testing.swarm.failures.plan_text import replay_line, written
from framework.testing.swarm.faults.kinds import ALL_KINDS, FaultKind
from framework.testing.swarm.plans.plan import draw
from framework.testing.swarm.simulation import play, replay_command

pytestmark = pytest.mark.timeout(600)  # whole clusters; a busy machine takes ten times as long
HOME = Path(framework.__file__).parent
ROOT = Path(__file__).parents[2]
FRESH_SEEDS, FRESH_PARTS, FRESH_FAILED = 60, 4, 2
YOUNG = frozenset({"pop", "pop-switched"})
"""Ways of which one run in a hundred still finds something: `make sim` draws them, and docs/simulation.md says what."""


def test_some_seeds_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["--seeds", "6", "--base", "1000", "--jobs", "2", "--kept", "none.txt"])
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(
        r"sim: seeds=6 base=1000 failed=0 virtual_s=\d+ wall_s=\d+ kinds=\d+/\d+ sometimes=\d+/\d+ trace=[0-9a-f]{16}",
        last,
    )


def test_the_number_of_processes_changes_nothing() -> None:
    alone = swarm(4, 2000, 1, seconds=15)
    together = swarm(4, 2000, 2, seconds=15)
    assert alone.trace == together.trace
    assert alone.fired == together.fired


def test_seeds_that_once_failed_hold() -> None:
    for verdict in run_all(kept_runs(ROOT / KEPT_SEEDS)):
        assert verdict.is_ok, verdict.violations


def fresh_base() -> int:
    """Where this run's own seeds begin: all of `make test` has one base, also what is run once more."""
    return int(os.environ.get("FRESH_BASE") or time.time())


@pytest.mark.parametrize("part", range(FRESH_PARTS))
def test_fresh_seeds_hold(part: int) -> None:
    """Seeds that nobody has run. One that fails is kept in `failing_seeds.txt` for ever.

    In `make test` two of the sixty may fail, and are named last: they are to be mended, but fail whatever was changed.
    """
    base = fresh_base() + part * FRESH_SEEDS * 2
    old = (seed for seed in count(base) if not YOUNG & set(draw(seed).workload.ways))
    result = swarm(0, base, 1, first=[Run(seed) for seed in islice(old, FRESH_SEEDS // FRESH_PARTS)])

    wrong = list(complaints(result))
    names = os.environ.get("FAILED_FIRST")
    if names and 0 < len(result.failed) <= FRESH_FAILED:
        lines = [
            f"fresh seed {run.plan.seed}: {run.violations[0]}; {replay_command(run.plan)}\n" for run in result.failed
        ]
        with Path(names).open("a", encoding="utf-8") as file:
            file.writelines(lines)
        return
    assert not wrong, "\n".join((f"base {result.base}", *wrong))  # whole, with the line that repeats each


def test_a_run_draws_its_seeds_anew_and_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FRESH_BASE", raising=False)
    assert abs(time.time() - fresh_base()) < 5
    monkeypatch.setenv("FRESH_BASE", "123")
    assert 123 == fresh_base()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "FRESH_BASE := $(shell date" in makefile
    assert "test: fresh " in makefile
    assert '@echo "fresh seeds: base=$(FRESH_BASE)"' in makefile


def test_the_file_of_kept_seeds_is_read(tmp_path: Path) -> None:
    path = tmp_path / "seeds.txt"
    path.write_text("# why\n12 # a reason\n\n7 faults=crash,cut ways=orderly\n8 ways=threads # so\n", encoding="utf-8")
    assert [Run(12), Run(7, ("crash", "cut"), ("orderly",)), Run(8, None, ("threads",))] == kept_runs(path)
    assert [] == kept_runs(tmp_path / "none.txt")


def test_what_a_kept_seed_names_is_played_and_repeated() -> None:
    (verdict,) = run_all([Run(7, ("crash", "cut"), ("orderly",))], seconds=5)
    assert ["crash", "cut"] == [kind.name for kind in verdict.plan.kinds]
    assert ("orderly",) == verdict.plan.workload.ways
    assert "framework-app simulate --seed 7 --for 5s --faults crash,cut --ways orderly" == replay_command(verdict.plan)


def test_a_plan_is_kept_whatever_is_drawn(tmp_path: Path) -> None:
    plan = draw(5, seconds=4).with_strikes()
    path = tmp_path / "seeds.txt"
    path.write_text(f"{written(plan)} # why\n", encoding="utf-8")
    (verdict,) = run_all(kept_runs(path))
    assert plan == verdict.plan
    assert replay_line(plan) == replay_command(plan)


def test_a_blind_generator_is_a_failure() -> None:
    result = swarm(1, 3000, 1, seconds=2)
    result.seeds = 300
    found = list(complaints(result))
    assert any("never fired" in line for line in found)
    assert any("never reached" in line for line in found)


def test_a_failure_is_one_line_to_repeat() -> None:
    result = swarm(1, 3000, 1, seconds=2)
    verdict, _ = play(draw(5, seconds=20))
    verdict.violations.append(Violation("nothing lost", "m1", 3.0))
    result.add(verdict)
    found = list(complaints(result))
    assert "seed 5 failed on Python" in found[0]
    assert "nothing lost at 3.000s: m1" in found[1]
    assert "framework-app simulate --seed 5 --for 20s" == found[-1]


def test_every_mark_in_the_code_is_accounted_for() -> None:
    """Either the simulation must reach it, or it is said where it is reached instead."""
    in_code = set()
    for path in HOME.rglob("*.py"):
        if "testing" not in path.parts:
            text = path.read_text(encoding="utf-8")
            in_code |= set(re.findall(r"\b(?:sometimes|stretched|rarely)\(\s*[\"']([^\"']+)[\"']", text))

    assert in_code == {*EXPECTED, *ELSEWHERE, *SELDOM}
    assert len(in_code) == len(EXPECTED) + len(ELSEWHERE) + len(SELDOM)


@pytest.mark.parametrize("kind", ALL_KINDS, ids=lambda kind: kind.name)
def test_each_kind_of_fault_alone(kind: FaultKind) -> None:
    """A short run with nothing but this kind: it happens, and everything holds."""
    verdict, _ = play(draw(8, seconds=25, kinds=[kind], brokers=1))
    assert verdict.is_ok, verdict.violations
    assert verdict.fired[kind.name] >= 1, f"{kind.name} never fired"
