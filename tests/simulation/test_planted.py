"""Each mistake that nothing noticed once is noticed: by its story, and by fresh seeds."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.simulation.planted import PLANTED, Mistake
from tests.simulation.planting import FOUND, MISSED, ROOT, verdict_of

MOST, MOST_FORCED = 200, 20
pytestmark = pytest.mark.timeout(3_600)  # whole clusters, up to two hundred of them
forced = [mistake for mistake in PLANTED if mistake.faults]
by_seeds = [mistake for mistake in PLANTED if mistake.by_seeds]


def planted(mistake: Mistake, *how: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: this one has imported the right code."""
    command = [sys.executable, "-m", "tests.simulation.planting", mistake.name, *how]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("mistake", PLANTED, ids=[each.name for each in PLANTED])
def test_the_code_still_reads_as_the_mistake_says(mistake: Mistake) -> None:
    spec = importlib.util.find_spec(mistake.module)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    compile(mistake.put_into(source), spec.origin, "exec")
    assert (ROOT / mistake.story.partition("::")[0]).exists()


@pytest.mark.parametrize("mistake", PLANTED, ids=[each.name for each in PLANTED])
def test_its_story_finds_it(mistake: Mistake) -> None:
    told = planted(mistake, "story")
    assert FOUND == told.returncode, f"{mistake.effect}, and nobody noticed\n{told.stdout[-2000:]}{told.stderr}"


@pytest.mark.slow
@pytest.mark.parametrize("mistake", forced, ids=[each.name for each in forced])
def test_a_few_seeds_with_its_faults_find_it(mistake: Mistake) -> None:
    assert found_by_seeds(mistake, MOST_FORCED, is_forced=True), mistake.effect


@pytest.mark.slow
@pytest.mark.parametrize("mistake", by_seeds, ids=[each.name for each in by_seeds])
def test_fresh_seeds_find_it(mistake: Mistake) -> None:
    assert found_by_seeds(mistake, MOST), f"{mistake.effect}, and {MOST} seeds did not notice"


def found_by_seeds(mistake: Mistake, most: int, *, is_forced: bool = False) -> bool:
    """Whether one of so many new seeds breaks a truth with the mistake, and none without it."""
    base = int(time.time())
    end = base + most
    while base < end:
        options = ("--most", str(end - base), "--base", str(base), *(["--forced"] if is_forced else []))
        played = planted(mistake, "seeds", *options)
        assert played.returncode in {FOUND, MISSED}, played.stderr
        sys.stdout.write(played.stdout)
        if played.returncode == MISSED:
            return False
        found = re.match(r"found by seed (\d+)", played.stdout)
        assert found is not None, played.stdout
        if verdict_of(int(found[1]), mistake.faults if is_forced else ()).is_ok:
            return True
        base = int(found[1]) + 1
    return False


def test_those_that_seeds_cannot_find_are_named() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for mistake in PLANTED:
        assert mistake.by_seeds or mistake.name in page, mistake.name
