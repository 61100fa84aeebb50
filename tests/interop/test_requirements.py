"""Tests that cannot run here are named after everything else; on CI they fail."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

CONFTEST = """
from tests.interop import requirements

def pytest_configure(config):
    lacking = requirements.Requirement("anvil", "interop", lambda: "no anvil was found")
    present = requirements.Requirement("hammer", "slow", lambda: None)
    requirements.install(config, [lacking, present])
"""
TESTS = """
import pytest

@pytest.mark.interop
def test_forge(): ...

@pytest.mark.slow
def test_hit(): ...

def test_plain(): ...
"""
SETTINGS = """
[pytest]
markers =
    interop: x
    slow: y
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("TEST_NOTES", raising=False)
    pytester.makeini(SETTINGS)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    return pytester


def test_what_is_missing_is_left_out_and_named_last(project: pytest.Pytester) -> None:
    result = project.runpytest_inprocess("-p", "no:randomly")

    result.assert_outcomes(passed=2, deselected=1)
    assert 0 == result.ret
    assert "not run: anvil: no anvil was found" == result.outlines[-1]


def test_nobody_is_told_about_tests_that_were_not_asked_for(project: pytest.Pytester) -> None:
    result = project.runpytest_inprocess("-p", "no:randomly", "-k", "plain or hit")

    result.assert_outcomes(passed=2, deselected=1)
    assert not any("not run" in line for line in result.outlines)


def test_on_ci_each_is_a_failure(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")

    result = project.runpytest_inprocess("-p", "no:randomly")

    result.assert_outcomes(passed=2, errors=1)
    assert 0 != result.ret
    assert "not run: anvil: no anvil was found" == result.outlines[-1]
