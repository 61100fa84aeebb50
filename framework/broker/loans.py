"""Loans: what a request has of something that all share, a part of a quota or the place at work, until it is over.

A holder works with it in a `with` block, at whose end it is given back, whatever was raised. In the block it may be
handed on; then it is the next holder's to give back. So nothing stays lent by a mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

GiveBack = Callable[[], object]


class Loan:
    """Something lent; `give_back` are called once, in their order, when it is over."""

    __slots__ = ("_give_back",)

    def __init__(self, *give_back: GiveBack) -> None:
        self._give_back = give_back

    def hand_on(self, *more: GiveBack) -> Loan:
        """The same, and what the next holder has beside it, for the next holder; nothing stays here."""
        given, self._give_back = self._give_back, ()
        return Loan(*given, *more)

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


NOTHING = Loan()
"""For those who have none."""
