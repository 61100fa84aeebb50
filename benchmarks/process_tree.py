"""CPU time and memory of a process and all its children, watched from outside.

The same for both sides of a comparison: neither is asked about itself.
"""

from __future__ import annotations

import bisect
import os
import threading
import time
from pathlib import Path

PERIOD_S = 0.05
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Watch:
    """Looks at a process tree twenty times a second until closed."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._at_ns: list[int] = []
        self._cpu_s: list[float] = []
        self._peaks: dict[int, int] = {}
        self._closing = threading.Event()
        self._look()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def cpu_s(self, first_ns: int, last_ns: int) -> float:
        """CPU seconds between two instants of the monotonic clock, to the nearest look before and after."""
        return self._at(last_ns) - self._at(first_ns)

    @property
    def peak_bytes(self) -> int:
        """The sum of each process's highest resident memory."""
        return sum(self._peaks.values())

    def _at(self, instant_ns: int) -> float:
        place = bisect.bisect(self._at_ns, instant_ns)
        if place == 0:
            return 0.0
        if place == len(self._at_ns):
            return self._cpu_s[-1]
        before, after = self._at_ns[place - 1], self._at_ns[place]
        share = (instant_ns - before) / (after - before)
        return self._cpu_s[place - 1] + share * (self._cpu_s[place] - self._cpu_s[place - 1])

    def _run(self) -> None:
        while not self._closing.wait(PERIOD_S):
            self._look()

    def _look(self) -> None:
        ticks = 0
        for pid in _tree(self._pid):
            ticks += _ticks(pid)
            self._peaks[pid] = max(self._peaks.get(pid, 0), _peak_bytes(pid))
        if ticks:
            self._at_ns.append(time.monotonic_ns())
            self._cpu_s.append(ticks / TICKS_A_SECOND)


def ticks_s(pid: int) -> float:
    """Processor time of a process, of what runs below it, and of children that were waited for."""
    return sum(_ticks(each) for each in _tree(pid)) / TICKS_A_SECOND


def pss_bytes(pid: int) -> int:
    """Memory of a process and what runs below it; a page that several share counts in parts."""
    lines = [line for each in _tree(pid) for line in _read(f"/proc/{each}/smaps_rollup").splitlines()]
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def rss_bytes(pid: int) -> int:
    """Resident memory of a process and what runs below it; a page that several share counts for each."""
    lines = [line for each in _tree(pid) for line in _read(f"/proc/{each}/status").splitlines()]
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def _tree(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        found += [int(child) for child in _read(f"/proc/{parent}/task/{parent}/children").split()]
    return found


def _ticks(pid: int) -> int:
    """User and system time, its own and that of children it has waited for."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15])


def _peak_bytes(pid: int) -> int:
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:  # Gone meanwhile.
        return ""
