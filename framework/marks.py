"""Marks: places in the code that a simulation reaches and bends.

    sometimes   a rare path was taken; over the seeds of a CI run each must be
    rarely      whether to do, this time, what seldom happens by itself
    stretched   a moment between two awaits that may last

Outside a simulation they do nothing: `rarely` is false, a stretch is over at once. A simulation
puts its own functions here for the length of a run. None is on a message's common way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol


class Bends(Protocol):
    """What a simulation does at marks that make rare things common."""

    def rarely(self, name: str) -> bool: ...
    def stretch(self, name: str) -> Awaitable[None] | None: ...


class _Straight:
    """Nothing is bent."""

    def rarely(self, name: str) -> bool:
        return False

    def stretch(self, name: str) -> Awaitable[None] | None:
        return None


def _ignore(name: str) -> None:
    return


_STRAIGHT = _Straight()
_reached: Callable[[str], None] = _ignore
_bends: Bends = _STRAIGHT


def sometimes(name: str) -> None:
    """Say that this rare path was taken. Over the seeds of a CI run each mark must have been reached."""
    _reached(name)


def rarely(name: str) -> bool:
    """Whether to do the rare thing now: fail as the next call could fail, take the longer way."""
    return _bends.rarely(name)


async def stretched(name: str) -> None:
    """A moment that may last. It stands right beside an `await`, which could take as long: no state is between."""
    if (pause := _bends.stretch(name)) is not None:
        await pause


def install(reached: Callable[[str], None] = _ignore, bends: Bends = _STRAIGHT) -> None:
    """Replace what marks do; without arguments, put the no-ops back."""
    global _reached, _bends
    _reached, _bends = reached, bends
