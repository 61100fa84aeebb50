"""The processes that tests start: how they begin, how it is noticed that they ended, how none outlives the test run.

It kills only what it started itself, by number and time of birth. A `keeper` does the same when this process dies
first. What the processes are for is not known here.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.interop.keeper import started_at
from tests.patience import PATIENCE_S, wait_until

__all__ = ["Birth", "Nursery", "wait_until"]

KEEPER = Path(__file__).with_name("keeper.py")


@dataclass(frozen=True, slots=True)
class Birth:
    """One process, and no other that may get its number later."""

    pid: int
    started: str

    @property
    def is_alive(self) -> bool:
        return started_at(self.pid) == self.started

    def kill(self, sign: int = signal.SIGKILL) -> None:
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sign)


class Nursery:
    """Starts processes and ends every one of them. With `outlive` they stay: that is for a developer's own cluster.
    With a `keeper`, the pipe of one that is there, they stay until nobody holds that.
    """

    def __init__(self, *, outlive: bool = False, keeper: IO[str] | None = None) -> None:
        self._keeper = None if outlive or keeper is not None else start_keeper(subprocess.PIPE)
        self._births = self._keeper.stdin if self._keeper is not None else keeper
        self._children: dict[int, subprocess.Popen[str]] = {}

    def start(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        output: Path | None = None,
        environment: Mapping[str, str] | None = None,
        talks: bool = False,
    ) -> subprocess.Popen[str]:
        """Start a process in a session of its own. With `talks`, input and output are pipes, `output` takes errors."""
        log = subprocess.DEVNULL if output is None else os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            child = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE if talks else log,
                stderr=log,
                cwd=cwd,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                text=True,
            )
        finally:
            if output is not None:
                os.close(log)
        self._children[child.pid] = child
        if self._births is not None and (start := started_at(child.pid)):
            self._births.write(f"{child.pid} {start}\n")
            self._births.flush()
        return child

    def kill(self, child: subprocess.Popen[str]) -> None:
        """SIGKILL at once: a broker takes 16 s to go in peace, and what it stored is there either way."""
        child.kill()
        self.bury(child)

    def bury(self, child: subprocess.Popen[str], timeout_s: float = 2 * PATIENCE_S) -> int:
        """Wait for a process that is on its way out; answers its exit code."""
        code = child.wait(timeout_s)
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._children.pop(child.pid, None)
        return code

    def close(self) -> None:
        """Kill everything that is left, then let the keeper go."""
        for child in list(self._children.values()):
            self.kill(child)
        if self._keeper is not None and self._keeper.stdin is not None:
            self._keeper.stdin.close()
            self._keeper.wait(PATIENCE_S)


def start_keeper(reads: int) -> subprocess.Popen[str]:
    """One that reads there, or from a pipe of its own, what it kills at the end."""
    command = [sys.executable, "-I", "-S", str(KEEPER)]
    return subprocess.Popen(command, stdin=reads, start_new_session=True, text=True)
