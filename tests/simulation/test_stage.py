"""The `story` fixture: in a pytest of its own, since a test that takes it and is no coroutine function must fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bare_pytest import BARE

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]


def test_a_story_is_told_with_its_seed_and_must_be_async(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest("from tests.simulation.stage import pytest_pyfunc_call, story")
    pytester.makepyfile(
        """
        import pytest

        def test_is_no_story(story): ...

        @pytest.mark.seed(3)
        async def test_a_story(story):
            (app,) = await story.start_apps(1)
            assert app.is_alive
            assert 3 == story.cluster.loop.seed
        """
    )

    result = pytester.runpytest_subprocess(*BARE, "--strict-markers")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*test_is_no_story takes a story, so it must be `async def`"])
