"""The machine beside each figure: its load, what its host took of it, what it is and which commit was measured."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.interop import jars

ROOT = Path(__file__).parents[1]
_STOLEN_AT = 7  # of a line of /proc/stat, behind its name; what guests used is counted twice there


@dataclass(frozen=True, slots=True)
class Busy:
    """What else went on while something was measured."""

    load: float
    """Average of the minute before it began."""
    stolen: float
    """The share of the machine's processors that its host gave to others meanwhile."""


class Meter:
    """Looks from when it is made until it is read."""

    def __init__(self) -> None:
        self._load = os.getloadavg()[0]
        self._before = _ticks()

    def read(self) -> Busy:
        stolen, total = (now - before for now, before in zip(_ticks(), self._before, strict=True))
        return Busy(round(self._load, 2), round(stolen / total, 4) if total else 0.0)


def host() -> dict[str, object]:
    return {
        "cpus": os.cpu_count(),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1_000_000,
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
        "java": _java(),
        "rocketmq": jars.VERSION,
    }


def commit() -> str:
    """What was measured, with `-dirty` where files differ from it other than by results of this measuring."""
    name = _git("rev-parse", "--short=8", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", ":!benchmarks/results", ":!docs")
    return f"{name}-dirty" if changed else name


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def _java() -> str | None:
    try:
        said = subprocess.run([jars.program("java"), "--version"], capture_output=True, text=True, check=True)
    except jars.InteropError:
        return None
    return said.stdout.partition("\n")[0]


def _ticks() -> tuple[int, int]:
    """Stolen, and all."""
    with Path("/proc/stat").open() as lines:
        fields = [int(field) for field in lines.readline().split()[1:9]]
    return fields[_STOLEN_AT], sum(fields)
