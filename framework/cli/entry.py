"""Where `framework-app` begins: it notes signals before all else is imported, since a start may take seconds."""

from __future__ import annotations

import sys

from framework.cli import quick_start
from framework.runtime import signals

LEFT_AT_ONCE = 130
"""`ExitCode.LEFT_AT_ONCE`, which is not imported yet."""
DRAINS = frozenset({"run", "dev", "broker"})
"""Commands that end in order when they are asked to. The others are ended by the first signal, as any tool is."""
_TRANSFERS = frozenset({"export", "import"})


def run() -> int:
    """The entry point; answers the exit code."""
    try:
        note_signals(sys.argv[1:])
        if drains(sys.argv[1:]):
            quick_start.begin()
        from framework.cli.main import run

        return run()
    except KeyboardInterrupt:  # while it imports: what comes later `main` catches, and ends alike
        return LEFT_AT_ONCE


def note_signals(arguments: list[str]) -> None:
    """Have this process note that it is asked to end, where its command will end in order for it."""
    if drains(arguments):
        signals.note()


def drains(arguments: list[str]) -> bool:
    """Whether this command ends in order."""
    return bool(arguments) and arguments[0] in DRAINS and not _TRANSFERS.intersection(arguments[1:2])
