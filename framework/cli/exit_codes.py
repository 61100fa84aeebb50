"""How commands end, as scripts and supervisors read it. The numbers are sysexits.h's where it has one."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    CLEAN = 0
    FAILED = 1
    """A check or a promise failed."""
    USAGE = 2
    UNREACHABLE = 69
    """No broker; only where giving up was asked for."""
    HUNG = 70
    """Of one process among several, and told to its parent alone, which starts another: handlers that were given up
    took its workers."""
    TAKEN = 73
    """A data folder or a port that somebody else has."""
    ABANDONED = 75
    """Messages were still running at the drain limit, or were handled and no broker confirmed their offsets; the last
    line counts them, and they are delivered again."""
    CONFIGURATION = 78
    LEFT_AT_ONCE = 130
    """A second signal."""


# What a child's end says of the whole, where it is one of these; whatever else it ended with (a signal, an interpreter
# that died, a handler that called os._exit), it did not do what it was there for.
_OF_CHILD: dict[int, ExitCode] = {
    ExitCode.CLEAN: ExitCode.CLEAN,
    # Its handlers were given up before, and their messages settled as `expiry` says: nothing was left behind.
    ExitCode.HUNG: ExitCode.CLEAN,
    # It was still starting, and had no handler for our signal yet; it had nothing to drain either.
    -signal.SIGTERM: ExitCode.CLEAN,
    **{code: code for code in (ExitCode.USAGE, ExitCode.UNREACHABLE, ExitCode.TAKEN, ExitCode.CONFIGURATION)},
    ExitCode.ABANDONED: ExitCode.ABANDONED,
}
_WEIGHT: tuple[ExitCode, ...] = (
    ExitCode.CLEAN, ExitCode.FAILED, ExitCode.UNREACHABLE, ExitCode.TAKEN, ExitCode.USAGE, ExitCode.CONFIGURATION,
    ExitCode.ABANDONED,
)  # fmt: skip


def of_all(codes: Iterable[int], *, abandoned: int = 0) -> ExitCode:
    """How a parent ends whose children ended with these when they were asked to, or by themselves at last.

    Messages that come again are told before anything else, since they are counted in the last line.
    """
    said = [_OF_CHILD.get(code, ExitCode.FAILED) for code in codes]
    return max([*said, ExitCode.ABANDONED if abandoned else ExitCode.CLEAN], key=_WEIGHT.index)
