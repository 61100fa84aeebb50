"""Telling members that their group changed: a departure at once, arrivals together with those that follow closely.

A notice makes every member ask for the list of all, so ten arrivals in a second need not cost a hundred questions. Who
was just told of something looks again after a second at the soonest, in Java as here: so arrivals until then share one
more notice, and none comes to anything later for it. A departure waits for nobody, since its queues are read by nobody
until the others know; it takes waiting arrivals along.
"""

from __future__ import annotations

from collections.abc import Callable

from framework.broker.members import BROADCASTING, Group
from framework.broker.timers import Timer, Timers
from framework.wire.codes import RequestCode
from framework.wire.command import ONE_WAY_BIT, Command

# An arrival is told this long after the last one, so a lone one well within a tenth of a second.
QUIET_S = 0.08
# However long the stream of arrivals is, the first of them waits no longer.
BURST_MAX_S = 1.0
# Between a notice and one of an arrival: members do not divide their queues anew more often than that.
LOOK_S = 1.0
# A departure is told at once; those that follow it within this time share one more notice.
DEPARTURES_S = 0.1


class _Due:
    """A notice on its way."""

    __slots__ = ("at", "is_urgent", "since", "timer")

    def __init__(self, since: float) -> None:
        self.since = since
        self.at = 0.0
        self.is_urgent = False
        """Of a departure: no arrival puts it off."""
        self.timer: Timer | None = None


class Notices:
    """One a logical broker. `is_wanted` says whether a group's settings allow notices."""

    def __init__(self, timers: Timers, find: Callable[[str], Group | None], is_wanted: Callable[[str], bool]) -> None:
        self._timers = timers
        self._find = find
        self._is_wanted = is_wanted
        self._due: dict[str, _Due] = {}
        self._departed: dict[str, float] = {}
        """When a departure was last told of."""
        self._told: dict[str, float] = {}
        """When a group was last told of anything."""

    def arrived(self, group: Group) -> None:
        """Tell all members, the newcomer too, once nobody else has come for a moment."""
        if not self._is_told(group):
            return
        now = self._timers.time()
        due = self._due.get(group.name) or _Due(now)
        at = min(now + QUIET_S, due.since + BURST_MAX_S)
        told = self._told.get(group.name)
        if told is not None:
            at = max(at, told + LOOK_S)
        if due.timer is None or (at > due.at > now and not due.is_urgent):
            self._set(group.name, due, at)

    def departed(self, group: Group) -> None:
        """Tell all that are left, in the loop's next turn."""
        if not self._is_told(group):
            return
        now = self._timers.time()
        due = self._due.get(group.name) or _Due(now)
        told = self._departed.get(group.name)
        at = now if told is None else max(told + DEPARTURES_S, now)
        if due.timer is None or at < due.at:
            due.is_urgent = True
            self._departed[group.name] = at
            self._set(group.name, due, at)

    def clear(self) -> None:
        """Tell nobody any more."""
        for due in self._due.values():
            if due.timer is not None:
                due.timer.cancel()
        for times in (self._due, self._departed, self._told):
            times.clear()

    def _is_told(self, group: Group) -> bool:
        return group.message_model != BROADCASTING and self._is_wanted(group.name)

    def _set(self, name: str, due: _Due, at: float) -> None:
        if due.timer is not None:
            due.timer.cancel()
        due.at = at
        self._due[name] = due
        due.timer = self._timers.call_later(max(at - self._timers.time(), 0), self._send, name)

    def _send(self, name: str) -> None:
        self._due.pop(name, None)
        group = self._find(name)
        if group is None:
            for times in (self._departed, self._told):
                times.pop(name, None)
            return
        self._told[name] = self._timers.time()
        for client in list(group.members):
            client.send(Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": name}, flag=ONE_WAY_BIT))
