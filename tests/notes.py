"""A plugin of pytest's for `.ci/gate`: what a run came to, a JSON object a line, in the file that TEST_NOTES names.

`{"failed": NAME, "error": LINE}` for each failure, `{"broken": ...}` for a file that cannot be read, `{"not run": ...}`
for what this machine lacks, and `{"counts": ...}` at the end. Without the variable nothing is written.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest

LONGEST = 300


def note(**said: str) -> None:
    if path := os.environ.get("TEST_NOTES"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps({key.replace('_', ' '): value for key, value in said.items()})}\n")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # xdist's workers tell it to the process that started them
        config.pluginmanager.register(Notes(), "test-notes")


class Notes:
    """Owns the counts of one run."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            note(failed=name_of(report), error=error_of(report))
        if report.failed or report.when == "call" or report.skipped:
            self._counts[report.outcome] += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            note(broken=report.nodeid, error=error_of(report))

    def pytest_sessionfinish(self) -> None:
        note(counts=", ".join(f"{count} {outcome}" for outcome, count in sorted(self._counts.items())))


def name_of(report: pytest.TestReport) -> str:
    """The name that pytest takes: xdist adds a test's group to it."""
    return re.sub(r"@[\w.-]+$", "", report.nodeid)


def error_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        lines = [line for line in str(report.longrepr).splitlines() if line.strip()]
        return (lines or ["no words"])[-1].strip()[:LONGEST]
    first = (crash.message.splitlines() or [""])[0]
    return f"{Path(crash.path).name}:{crash.lineno}: {first}"[:LONGEST]
