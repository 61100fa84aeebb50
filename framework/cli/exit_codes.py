"""How commands end, as scripts and supervisors read it. The numbers are sysexits.h's where it has one."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    CLEAN = 0
    FAILED = 1
    """A check or a promise failed."""
    USAGE = 2
    UNREACHABLE = 69
    """No broker; only where giving up was asked for."""
    HUNG = 70
    """Of one process among several: handlers that were given up took its workers; its parent starts another."""
    TAKEN = 73
    """A data folder or a port that somebody else has."""
    ABANDONED = 75
    """Messages were still running at the drain limit; the last line counts them, and they are delivered again."""
    CONFIGURATION = 78
    LEFT_AT_ONCE = 130
    """A second signal."""
