from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.processes import command
from tests.deploy.pods import Process, ended


@pytest.fixture
def box(tmp_path: Path) -> Iterator[str]:
    """The name server of a built-in broker, in a process of its own."""
    folder = tmp_path / "box"
    folder.mkdir()
    ready = folder / "ready"
    with command("broker", "--memory", "--ready-file", str(ready), folder=folder) as broker:
        broker.until("broker: ready")
        found = re.search(r"namesrv=(\S+)", ready.read_text())
        assert found
        yield found[1]
        broker.end()


@pytest.fixture
def started() -> Iterator[Callable[[Process], Process]]:
    """Whatever is given to it is gone when the test is."""
    with ended() as keep:

        def kept(process: Process) -> Process:
            keep(process)
            return process

        yield kept


@pytest.fixture
def tmp() -> Iterator[Path]:
    """For what a container has at /tmp. A control socket's path has 100 bytes at most, and a test's folder more."""
    with tempfile.TemporaryDirectory(prefix="pod-") as folder:
        yield Path(folder)
