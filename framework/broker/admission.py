"""Admission: how long a newcomer to a group is watched before the others divide queues with it. Off by default.

A member that comes and goes moves queues twice each time. So one counts after a while of unbroken connection, and one
that was here lately waits twice as long as the last time, up to a maximum. It is answered meanwhile and administrators
see it; only the list of members leaves it out. Knows neither connections nor notices.
"""

from __future__ import annotations

from framework.broker.timers import Timers

# Two minutes beyond the longest wait that is usual: who stays away or stays steady this long begins anew.
FORGIVEN_S = 420.0
# More absent members than any group has; the one that left longest ago is forgotten first.
REMEMBERED_MAX = 10_000


class Admission:
    """Who flaps. `wait_ms` 0: everybody counts at once."""

    def __init__(self, timers: Timers, wait_ms: int, wait_ms_max: int) -> None:
        self._timers = timers
        self._wait_s = wait_ms / 1000
        self._wait_s_max = max(wait_ms, wait_ms_max) / 1000
        self._left: dict[tuple[str, str], tuple[int, float]] = {}
        self._flaps: dict[tuple[str, str], tuple[int, float]] = {}

    def came(self, group: str, client_id: str) -> float:
        """How many seconds the newcomer is watched."""
        if self._wait_s <= 0:
            return 0.0
        key, now = (group, client_id), self._timers.time()
        flaps, left = self._left.pop(key, (-1, 0.0))
        flaps = flaps + 1 if now - left < FORGIVEN_S else 0
        self._flaps[key] = (flaps, now)
        # A bounded exponent: a thousand flaps are no number of a thousand digits.
        return min(self._wait_s * 2.0 ** min(flaps, 32), self._wait_s_max)

    def went(self, group: str, client_id: str) -> None:
        """The member's connection ended, or it said goodbye."""
        flaps, since = self._flaps.pop((group, client_id), (0, 0.0))
        if self._wait_s <= 0:
            return
        now = self._timers.time()
        self._left[group, client_id] = (-1 if now - since >= FORGIVEN_S else flaps, now)
        if len(self._left) > REMEMBERED_MAX:
            del self._left[next(iter(self._left))]

    def clear(self) -> None:
        self._left.clear()
        self._flaps.clear()
