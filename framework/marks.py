"""Marks: places in the code that a simulation must have reached, and safeguards that it may switch off.

Outside a simulation both are no-ops: `sometimes` does nothing and `safeguard` is true. The simulation puts its own
functions here for the length of a run. Marks stand on rare paths only; none is on a message's common way.
"""

from __future__ import annotations

from collections.abc import Callable


def _ignore(name: str) -> None:
    return


def _on(name: str) -> bool:
    return True


_reached: Callable[[str], None] = _ignore
_holds: Callable[[str], bool] = _on


def sometimes(name: str) -> None:
    """Say that this rare path was taken. Over the seeds of a CI run each mark must have been reached."""
    _reached(name)


def safeguard(name: str) -> bool:
    """Whether this safeguard is in force. Tests switch one off and expect a checker to notice (a mutant)."""
    return _holds(name)


def install(reached: Callable[[str], None] = _ignore, holds: Callable[[str], bool] = _on) -> None:
    """Replace both functions; without arguments, put the no-ops back."""
    global _reached, _holds
    _reached, _holds = reached, holds
