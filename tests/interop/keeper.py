"""Kills what a test run started, when the run itself is gone: by signal, by crash, however.

A program of its own that imports nothing of ours. It reads `PID START` lines, START being when the process began in the
kernel's ticks, so that a number the system has given to a stranger meanwhile is left alone. The end of its input, which
comes when the last holder of the pipe is dead, is the order to kill. It sits in a session of its own, where no Ctrl-C
reaches it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path


def started_at(pid: int) -> str | None:
    """When a live process began, in kernel ticks since boot; None for one that is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def main() -> None:
    watched = [line.split() for line in sys.stdin]
    for pid, start in watched:
        if started_at(int(pid)) == start:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


if __name__ == "__main__":
    main()
