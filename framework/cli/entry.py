"""Where `framework-app` begins: it notes signals before anything else is imported, since a start may take seconds."""

from __future__ import annotations

import sys

from framework.runtime import signals

DRAINS = frozenset({"run", "dev", "broker"})
"""Commands that end in order when they are asked to. The others are ended by the first signal, as any tool is."""
_TRANSFERS = frozenset({"export", "import"})


def run() -> int:
    """The entry point; answers the exit code."""
    note_signals(sys.argv[1:])
    from framework.cli.main import run

    return run()


def note_signals(arguments: list[str]) -> None:
    """Have this process note that it is asked to end, where its command will end in order for it."""
    if arguments[:1] and arguments[0] in DRAINS and not _TRANSFERS.intersection(arguments[1:2]):
        signals.note()
