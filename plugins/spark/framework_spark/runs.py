"""Runs of a backfill in one folder, of which one is at work: the lock.

Each run makes a file with the next number, which only one can, and another file when it ends. Nothing is deleted, so a
run that was slow to look cannot take what another has taken since. A run that died is told by its process, where that
can be seen; else the user says so. A run that was taken over notices it before it makes anything visible.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from framework.errors import StoreError
from framework.harmless import plain
from framework_spark.folder import Folder

RUNS = "_backfill"  # Spark passes over names with an underscore
_RUN = re.compile(r"run-(\d+)")


class Run:
    """One that is at work."""

    def __init__(self, folder: Folder, number: int) -> None:
        self._folder, self._number = folder, number
        self.aside = f"{RUNS}/writing-{number:05}"
        """Its own folder, for what is not whole."""

    def check(self) -> None:
        """StoreError where another run has taken over."""
        if self._folder.has(_file(self._number + 1)):
            raise StoreError(
                f"{self._folder}: run {self._number + 1} has taken this backfill over and writes what is left, so run "
                f"{self._number} ends"
            )

    def end(self) -> None:
        self._folder.remove(self.aside)
        self._folder.create(f"{_file(self._number)}.ended", "")


@contextmanager
def begun(folder: Folder, take_over: int | None) -> Iterator[Run]:
    """A run of one's own. StoreError where another one is at work: not `take_over`, and not seen to be dead."""
    names = folder.names(RUNS)
    before = max((int(found[1]) for name in names if (found := _RUN.fullmatch(name))), default=0)
    if before and f"{_file(before)}.ended".rpartition("/")[2] not in names:
        holder = _holder(folder, before)
        if take_over != before and not _is_dead(holder):
            raise _locked(folder, before)
        sys.stderr.write(f"backfill: going on after run {before} ({_shown(holder)}), which did not end\n")
    run = Run(folder, before + 1)
    if not folder.create(_file(before + 1), json.dumps(_me())):
        raise _locked(folder, before + 1)
    try:
        # Whatever a run before still has in hand cannot be made visible from here on.
        for name in folder.names(RUNS):
            if name.startswith("writing-"):
                folder.remove(f"{RUNS}/{name}")
        yield run
    finally:
        # Of a disk that is full, a JVM that died: the next run sees that this process is gone.
        with suppress(StoreError):
            run.end()


def _file(number: int) -> str:
    return f"{RUNS}/run-{number:05}"


def _locked(folder: Folder, number: int) -> StoreError:
    return StoreError(
        f"{folder}: another backfill is at work there: run {number} ({_shown(_holder(folder, number))}); wait for its "
        f"end. If you know that it is dead, add --take-over {number}"
    )


def _me() -> dict[str, Any]:
    return {
        "host": platform.node(), "machine": _machine(), "process": os.getpid(),
        "since": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "token": uuid.uuid4().hex,
    }  # fmt: skip


def _holder(folder: Folder, number: int) -> dict[str, Any]:
    """Who made the file; nothing where that cannot be read, as of one that is being written."""
    try:
        found = json.loads(folder.read(_file(number)) or "")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _shown(holder: dict[str, Any]) -> str:
    if not holder:
        return "its file does not say whose"
    host, process, since = (plain(str(holder.get(name))) for name in ("host", "process", "since"))
    return f"process {process} on {host}, since {since}"


def _is_dead(holder: dict[str, Any]) -> bool:
    """Whether that can be seen from here: its process was one of this machine, and is there no more."""
    machine, process = holder.get("machine"), holder.get("process")
    if not machine or machine != _machine() or type(process) is not int or process < 1:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass  # somebody else's
    return False


def _machine() -> str:
    """The same for all processes that see each other's numbers until the machine restarts; else empty."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""
