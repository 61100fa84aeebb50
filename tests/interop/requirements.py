"""Tests that need what a machine may lack, and what is said when they cannot run.

A `Requirement` belongs to a marker. Where it is missing, its tests are left out and one line says so after everything
else pytest prints: `not run: NAME: REASON`. With `CI=true` they are not left out: each fails with the reason, because a
build that quietly tests less is worse than a red one.

The root `conftest.py` installs it:

    def pytest_configure(config: pytest.Config) -> None:
        requirements.install(config, [requirements.REAL_CLUSTER])
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.interop import golang, jars
from tests.notes import note


@dataclass(frozen=True, slots=True)
class Requirement:
    """What the tests under a marker need."""

    name: str
    marker: str
    missing: Callable[[], str | None]
    """The reason in words for a person, or None. Asked once, and only when such tests were selected."""


REAL_CLUSTER = Requirement("interop", "interop", jars.missing)
GO = Requirement("go", "go", golang.missing)


def install(config: pytest.Config, requirements: Sequence[Requirement]) -> None:
    config.pluginmanager.register(NotRun(requirements, is_ci=os.environ.get("CI") == "true"), "not-run")


class NotRun:
    """The pytest plugin. Under xdist the workers leave tests out and the controller says so."""

    def __init__(self, requirements: Sequence[Requirement], *, is_ci: bool) -> None:
        self._requirements = requirements
        self._is_ci = is_ci
        self._reasons: dict[str, str] = {}
        """Name -> reason, of what is missing and was asked for."""

    @pytest.hookimpl(trylast=True)  # After -m and -k have left out what nobody wants to run.
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        for requirement in self._requirements:
            wanting = [item for item in items if item.get_closest_marker(requirement.marker)]
            reason = requirement.missing() if wanting else None
            if reason is None:
                continue
            self._reasons[requirement.name] = reason
            if not self._is_ci:
                items[:] = [item for item in items if item not in wanting]
                config.hook.pytest_deselected(items=wanting)

    @pytest.hookimpl(tryfirst=True)  # Before any fixture is made.
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        for requirement in self._requirements:
            if requirement.name in self._reasons and item.get_closest_marker(requirement.marker):
                pytest.fail(f"not run: {requirement.name}: {self._reasons[requirement.name]}", pytrace=False)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output["not_run"] = self._reasons

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        self._reasons |= getattr(node, "workeroutput", {}).get("not_run", {})

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        if hasattr(config, "workeroutput"):
            return
        for name, reason in self._reasons.items():
            sys.stdout.write(f"not run: {name}: {reason}\n")
            note(not_run=f"{name}: {reason}")
