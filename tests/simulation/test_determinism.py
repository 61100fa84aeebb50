"""One seed gives one run: in other processes, with other hash seeds, and on other Pythons."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lacking import lacking
from tests.simulation.plans.plan import draw
from tests.simulation.simulation import play

pytestmark = pytest.mark.timeout(600)  # whole clusters; a busy machine takes ten times as long
ROOT = Path(__file__).parents[2]
SEEDS = (0, 4, 11)
SECONDS, SHORT = 10.0, 5.0
HASH_SEEDS = ("31337", "random")
PROGRAM = """
import sys
from tests.simulation.plans.plan import draw
from tests.simulation.simulation import play
for seed in map(int, sys.argv[2:]):
    verdict, history = play(draw(seed, seconds=float(sys.argv[1])))
    print(seed, verdict.trace, verdict.steps, len(history.facts), round(verdict.virtual_s, 9))
"""


def traces(python: str, hash_seed: str) -> str:
    """What another process says about the seeds."""
    done = subprocess.run(
        [python, "-c", PROGRAM, str(SECONDS), *map(str, SEEDS)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert 0 == done.returncode, done.stderr[-2000:]
    return done.stdout


def test_a_seed_repeats_in_the_same_process() -> None:
    first, _ = play(draw(12, seconds=SHORT))
    again, _ = play(draw(12, seconds=SHORT))
    other, _ = play(draw(13, seconds=SHORT))

    assert first.trace == again.trace != other.trace
    assert first.steps == again.steps


def test_a_seed_repeats_in_other_processes_with_other_hash_seeds() -> None:
    assert 1 == len({traces(sys.executable, hash_seed) for hash_seed in HASH_SEEDS})


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_a_seed_repeats_on_other_pythons(version: str) -> None:
    """In the environments that `.ci/elsewhere` makes, where they have been made."""
    python = ROOT / f".venv-{version}" / "bin" / "python"
    if not python.exists():
        lacking(f"there is no .venv-{version}: make elsewhere")
    assert traces(sys.executable, "0") == traces(str(python), "random")
