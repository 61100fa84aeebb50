"""A progress bar on stderr, where that is a terminal."""

from __future__ import annotations

import sys
from typing import Self

from framework.harmless import plain

_WIDTH = 30


class ProgressLine:
    """One line that is drawn over; only as often as it would look different."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._is_shown = sys.stderr.isatty()
        self._drawn = ""

    def advance(self, done: int, total: int | None, note: str = "") -> None:
        """`total` None: nobody knows how much there is, and the note says how far it came."""
        if not self._is_shown:
            return
        line = f"\r{plain(self._what)}"
        if total is not None:
            share = min(done / total, 1.0) if total else 1.0
            line += f" [{'#' * int(share * _WIDTH):<{_WIDTH}}] {share:4.0%}"
        line = f"{line} {plain(note)}".rstrip().ljust(len(self._drawn.rstrip()))
        if line != self._drawn:
            self._drawn = line
            sys.stderr.write(line)
            sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Take the line away: what comes next says it all."""
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._drawn = ""

    def end(self) -> None:
        if self._drawn:
            sys.stderr.write("\n")
