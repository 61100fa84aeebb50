"""What commands are tried with: a folder for one that runs in the test's process, and a broker beside them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from framework.broker.settings import BrokerSettings
from tests.reading.threads import thread_box

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


@pytest.fixture
def box() -> Iterator[str]:
    """The address of a broker in the box, on a thread: as a process it would be an interpreter more for each test."""
    with thread_box(settings=BrokerSettings()) as box:
        yield box.address
