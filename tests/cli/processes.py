"""`framework-app` as a process of its own, with its lines read as they come. Whatever was started is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.patience import Result, wait_until

ROOT = Path(__file__).parents[2]
STDERR = 2
READ_BYTES = 1024 * 1024
PATIENCE_S = 240.0
"""For an application of several processes to come up. A test's own time-out is more."""


class Command:
    """A running command. Reading blocks until there is a line; the test's own time-out is the bound."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"ended after {self.lines}"
        self.lines.append(line.rstrip("\n"))
        return self.lines[-1]

    def until(self, beginning: str) -> str:
        """The first line from here on that begins so."""
        while not (line := self.line()).startswith(beginning):
            pass
        return line

    def wait_until(self, holds: Callable[[], Result], what: str) -> Result:
        """What `holds` answered when that was true for the first time, which must be while it runs."""

        def looked() -> Result:
            has_ended = self.process.poll() is not None  # asked first: its last act is no failure
            answer = holds()
            assert answer or not has_ended, f"it ended with {self.process.returncode} before {what}"
            return answer

        return wait_until(looked, what, PATIENCE_S)

    def signal_group(self, number: signal.Signals) -> None:
        """As Ctrl-C in a terminal: everything in the process group gets it."""
        os.killpg(self.process.pid, number)

    def end(self, number: signal.Signals | None = signal.SIGTERM) -> int:
        """Ask it to end (None: it ends by itself), read to the last line, answer the exit code."""
        if number is not None:
            self.process.send_signal(number)
        output, _ = self.process.communicate()
        self.lines += output.splitlines()
        return self.process.returncode


class Errors:
    """What the commands of a test have written to stderr so far.

    Read from where `capfd` collects it: its own reading cuts that off, with whatever is written meanwhile.
    """

    def __init__(self, _capfd: pytest.CaptureFixture[str]) -> None:
        self._said = b""

    @property
    def text(self) -> str:
        return self._said.decode(errors="replace")

    def read(self) -> str:
        while more := os.pread(STDERR, READ_BYTES, len(self._said)):
            self._said += more
        return self.text

    def until(self, running: Command, text: str, times: int = 1) -> None:
        """Until the text has been written so often."""
        try:
            running.wait_until(lambda: self.read().count(text) >= times, repr(text))
        except AssertionError as error:
            raise AssertionError(f"{error}; this was said:\n{self.text}") from None


@contextmanager
def command(*arguments: str, folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[Command]:
    """`framework-app ARGUMENTS` in this folder; its stderr is the test's."""
    process = subprocess.Popen(
        [sys.executable, "-m", "framework", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        start_new_session=True,
    )
    try:
        yield Command(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
