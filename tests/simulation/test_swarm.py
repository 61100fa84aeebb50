"""The swarm: seeds held against every truth, the lines that CONTRACTS names, and generators that are not blind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import framework
from framework.testing.errors import Violation
from tests.simulation.__main__ import KEPT_SEEDS, Run, complaints, kept_runs, main, run_all, swarm
from tests.simulation.expected_marks import EXPECTED, SELDOM
from tests.simulation.failures import plan_text
from tests.simulation.failures.plan_text import replay_line, written
from tests.simulation.faults.kinds import ALL_KINDS, FaultKind
from tests.simulation.noticing import MESSAGES_MAX
from tests.simulation.plans.plan import draw
from tests.simulation.rare.core_marks import CAME_BACK, KEPT
from tests.simulation.simulation import play, replay_command

pytestmark = pytest.mark.timeout(600)  # whole clusters; a busy machine takes ten times as long
HOME = Path(framework.__file__).parent
ROOT = Path(__file__).parents[2]
GATE_SEEDS, PARTS = 16, 2


def test_some_seeds_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["--seeds", "3", "--base", "1000", "--jobs", "2", "--kept", "none.txt"])
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(
        r"sim: seeds=3 base=1000 failed=0 virtual_s=\d+ wall_s=\d+ kinds=\d+/\d+ sometimes=\d+/\d+ trace=[0-9a-f]{16}",
        last,
    )


def test_the_number_of_processes_changes_nothing() -> None:
    alone = swarm(3, 2000, 1, seconds=5)
    together = swarm(3, 2000, 2, seconds=5)
    assert alone.trace == together.trace
    assert alone.fired == together.fired


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_plans_that_once_failed_hold(part: int) -> None:
    """A kept plan replays what failed, whatever this version draws. The largest are left to the next test."""
    assert_they_hold([run for run in kept_runs(ROOT / KEPT_SEEDS) if is_small_plan(run)][part::PARTS])


@pytest.mark.slow
def test_all_seeds_that_once_failed_hold() -> None:
    """What is kept as a seed alone is another run by now: as good as a fresh one, of which `make fresh` plays more."""
    assert_they_hold([run for run in kept_runs(ROOT / KEPT_SEEDS) if not is_small_plan(run)])


def is_small_plan(run: Run) -> bool:
    return bool(run.plan) and plan_text.read(run.plan).workload.messages < MESSAGES_MAX


def assert_they_hold(runs: list[Run]) -> None:
    assert runs
    for verdict in run_all(runs):
        assert verdict.is_ok, verdict.violations


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_the_seeds_of_the_gate_hold(part: int) -> None:
    """The same ones each time: `make fresh` draws those that nobody has run."""
    seeds = range(gate_base() + part, gate_base() + GATE_SEEDS, PARTS)
    wrong = list(complaints(swarm(0, gate_base(), 1, first=map(Run, seeds))))
    assert not wrong, "\n".join(wrong)  # whole, with the line that repeats each


def gate_base() -> int:
    (base,) = re.findall(r"^GATE_BASE := (\d+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    return int(base)


def test_the_file_of_kept_seeds_is_read(tmp_path: Path) -> None:
    path = tmp_path / "seeds.txt"
    path.write_text("# why\n12 # a reason\n\n7 faults=crash,cut ways=orderly\n8 ways=threads # so\n", encoding="utf-8")
    assert [Run(12), Run(7, ("crash", "cut"), ("orderly",)), Run(8, None, ("threads",))] == kept_runs(path)
    assert [] == kept_runs(tmp_path / "none.txt")


def test_what_a_kept_seed_names_is_played_and_repeated() -> None:
    (verdict,) = run_all([Run(7, ("crash", "cut"), ("orderly",))], seconds=5)
    assert ["crash", "cut"] == [kind.name for kind in verdict.plan.kinds]
    assert ("orderly",) == verdict.plan.workload.ways
    assert "python -m tests.simulation.one --seed 7 --for 5s --faults crash,cut --ways orderly" == replay_command(
        verdict.plan
    )


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
    assert "python -m tests.simulation.one --seed 5 --for 20s" == found[-1]


def test_every_mark_in_the_code_is_accounted_for() -> None:
    """The simulation must reach it, each three hundred seeds or some thousand; and none is in the core."""
    in_code = {CAME_BACK, KEPT}
    for path in HOME.rglob("*.py"):
        if "testing" not in path.parts:
            text = path.read_text(encoding="utf-8")
            assert "core" not in path.relative_to(HOME).parts or not re.search(r"\bmarks\b", text), path
            in_code |= set(re.findall(r"\b(?:sometimes|stretched|rarely)\(\s*[\"']([^\"']+)[\"']", text))

    assert in_code == {*EXPECTED, *SELDOM}
    assert len(in_code) == len(EXPECTED) + len(SELDOM) <= 60


@pytest.mark.parametrize("kind", ALL_KINDS, ids=lambda kind: kind.name)
def test_each_kind_of_fault_alone(kind: FaultKind) -> None:
    """A short run with nothing but this kind: it happens, and everything holds."""
    verdict, _ = play(draw(8, seconds=25, kinds=[kind], brokers=1))
    assert verdict.is_ok, verdict.violations
    assert verdict.fired[kind.name] >= 1, f"{kind.name} never fired"
