"""For commands that a test runs in its own process, which is quicker than one of theirs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

LOADED = ("shop", "framework_app", "desk_plugin")
"""Modules that these tests name alike: none is another test's."""


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The test's folder is the current one, and what is imported from there is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in LOADED:
        monkeypatch.delitem(sys.modules, name, raising=False)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
    structlog.reset_defaults()
