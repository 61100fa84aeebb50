"""Each mistake that nothing noticed once is noticed: by its story, and by fresh seeds."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.simulation.planted import PLANTED, Mistake
from tests.simulation.planting import FOUND, MISSED, ROOT

MOST = 200
pytestmark = pytest.mark.timeout(3_600)  # whole clusters, up to two hundred of them
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
@pytest.mark.parametrize("mistake", by_seeds, ids=[each.name for each in by_seeds])
def test_fresh_seeds_find_it(mistake: Mistake) -> None:
    played = planted(mistake, "seeds", "--most", str(MOST), "--base", str(int(time.time())))
    assert played.returncode in {FOUND, MISSED}, played.stderr
    assert FOUND == played.returncode, f"{mistake.effect}; {played.stdout}"


def test_those_that_seeds_cannot_find_are_named() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for mistake in PLANTED:
        assert mistake.by_seeds or mistake.name in page, mistake.name
