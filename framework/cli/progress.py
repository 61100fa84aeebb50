"""A progress bar on stderr, where that is a terminal."""

from __future__ import annotations

import sys

_WIDTH = 30


class ProgressLine:
    """One line that is drawn over; only as often as it would look different."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._is_shown = sys.stderr.isatty()
        self._drawn = ""

    def advance(self, done: int, total: int) -> None:
        if not self._is_shown:
            return
        share = min(done / total, 1.0) if total else 1.0
        line = f"\r{self._what} [{'#' * int(share * _WIDTH):<{_WIDTH}}] {share:4.0%}"
        if line != self._drawn:
            self._drawn = line
            sys.stderr.write(line)
            sys.stderr.flush()

    def end(self) -> None:
        if self._drawn:
            sys.stderr.write("\n")
