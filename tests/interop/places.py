"""Where interop tests send to and consume from: a real cluster, or the broker in the box."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.interop.processes import Nursery, wait_until

ROOT = Path(__file__).parents[2]
QUICK_RETRIES = " ".join(["1s"] * 18)


@dataclass(frozen=True, slots=True)
class Place:
    """A name server, and names for topics that nobody had. Topics come into being when they are first sent to."""

    name_server: str
    _numbers: Callable[[], str]

    def new_topic(self) -> str:
        return f"topic-{self._numbers()}"


def start_box(nursery: Nursery, folder: Path) -> str:
    """Start the broker in the box as a process of its own; answers its name server's address. Retries take a second."""
    ready = folder / "ready"
    command = [sys.executable, "-m", "framework", "broker", "--memory", "--ready-file", str(ready)]
    nursery.start([*command, "--delay-levels", QUICK_RETRIES], cwd=ROOT, output=folder / "log")
    wait_until(lambda: ready.exists() and ready.read_text().endswith("\n"), f"the box ({folder})", 30)
    found = re.search(r"namesrv=(\S+)", ready.read_text())
    assert found, ready.read_text()
    return found[1]
