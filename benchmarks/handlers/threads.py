"""What plain handlers have in common, which run on many threads at once.

Each thread adds in a cell of its own, and the count comes from an iterator, whose step is atomic.
"""

from __future__ import annotations

import itertools
import threading

from benchmarks.handlers.counting import tally

numbers = itertools.count(1)
cells: list[list[int]] = []


class Own(threading.local):
    """A thread's own sum."""

    def __init__(self) -> None:
        self.cell = [0]
        cells.append(self.cell)


own = Own()


def add_up() -> None:
    tally.handled = next(numbers) - 1
    tally.offsets = sum(cell[0] for cell in cells)
