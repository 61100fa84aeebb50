"""Tally: what one group's handler has run, as numbers for metrics. Counted on worker threads, read on another."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class Tally:
    """One a group and process, in both modes. A batch that is split or run in parts is one batch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._figures: dict[str, float] = {}

    @contextmanager
    def batch(self, rows: int) -> Iterator[None]:
        """Around the run of one batch of so many rows; one that raises counts as failed, too."""
        began, failed = time.monotonic(), True
        try:
            yield
            failed = False
        finally:
            self.ran(rows, (time.monotonic() - began) * 1000, failed=failed)

    def ran(self, rows: int, elapsed_ms: float, *, failed: bool = False) -> None:
        """One batch ended; `elapsed_ms` is what it took from its rows being there, or being asked for, to its end."""
        self.note(batch_rows=rows, batch_ms=elapsed_ms)
        self.count(batches_total=1, rows_total=rows, batch_ms_total=elapsed_ms, failed_batches_total=int(failed))

    def count(self, **more: float) -> None:
        """More of what is counted."""
        with self._lock:
            for name, number in more.items():
                self._figures[name] = self._figures.get(name, 0) + number

    def note(self, **figures: float) -> None:
        """Numbers that are as they are now."""
        with self._lock:
            self._figures.update(figures)

    @property
    def figures(self) -> Mapping[str, float]:
        """Empty before the first batch."""
        with self._lock:
            return dict(self._figures)
