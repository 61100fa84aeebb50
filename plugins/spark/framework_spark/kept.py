"""Kept: readers that a worker process keeps from task to task, so that the next need not connect or ask for routes.

Spark gives a worker process one task after the other, and ends processes that had none for a minute. A reader is lent
to one task at a time, and comes back only from a task that succeeded. It is discarded when it is older than
`KEEP_SECONDS` (routes, certificates and name servers are then read again), when the reference leads to other
credentials, and in a process that was forked from the one that opened it. A connection that the other end closed is
replaced before a task sees it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from framework.reading import Reader, ReaderSettings

KEEP_SECONDS = 30.0  # as long as clients of RocketMQ trust a route
KEEP_MAX = 4  # readers a process; with more clusters than that, tasks connect anew


@dataclass(slots=True)
class _Kept:
    reader: Reader
    keys: object
    process: int = field(default_factory=os.getpid)
    made_at: float = field(default_factory=time.monotonic)

    def is_good(self) -> bool:
        return self.process == os.getpid() and time.monotonic() - self.made_at < KEEP_SECONDS


_resting: list[_Kept] = []
_lock = Lock()


@contextmanager
def lent(settings: ReaderSettings) -> Iterator[Reader]:
    """A reader of these settings for one task. It is closed unless the task comes to its end."""
    keys = settings.resolve_credentials()
    kept = _taken(settings, keys) or _Kept(Reader(settings), keys)
    try:
        yield kept.reader
    except BaseException:  # also of a task that nobody reads to its end: an answer may be under way
        kept.reader.close()
        raise
    _put_back(kept)


def _taken(settings: ReaderSettings, keys: object) -> _Kept | None:
    with _lock:
        worn = [each for each in _resting if not each.is_good()]
        good = [each for each in _resting if each.is_good()]
        found = next((each for each in good if each.reader.settings == settings and each.keys == keys), None)
        _resting[:] = [each for each in good if each is not found]
    for each in worn:
        each.reader.close()
    if found is not None:
        found.reader.drop_dead()
    return found


def _put_back(kept: _Kept) -> None:
    with _lock:
        _resting.append(kept)
        over = _resting.pop(0) if len(_resting) > KEEP_MAX else None
    if over is not None:
        over.reader.close()


def close_resting() -> None:
    """Close what no task has now; the next task connects anew."""
    with _lock:
        resting = list(_resting)
        _resting.clear()
    for each in resting:
        each.reader.close()
