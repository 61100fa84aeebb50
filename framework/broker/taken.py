"""Taken: what a request has of something that all share, a part of a quota or the place at work, until it is over.

A holder works with it in a `with` block, at whose end it is given back, whatever was raised. In the block it may be
handed on; then it is the next holder's to give back. So nothing stays taken by a mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

GiveBack = Callable[[], object]


class Taken:
    """What is to be called, once, when it is over; several in their order."""

    __slots__ = ("_give_back",)

    def __init__(self, *give_back: GiveBack) -> None:
        self._give_back = give_back

    def hand_on(self, *more: GiveBack) -> Taken:
        """The same, and what the next holder has beside it, for the next holder; nothing stays here."""
        given, self._give_back = self._give_back, ()
        return Taken(*given, *more)

    def give_back(self) -> None:
        """Nothing happens the second time."""
        given, self._give_back = self._give_back, ()
        for each in given:
            each()

    def __bool__(self) -> bool:
        return bool(self._give_back)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()


NOTHING = Taken()
"""For those who have taken nothing."""
