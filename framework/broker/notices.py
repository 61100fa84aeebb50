"""Telling members that their group changed: at once, and what follows closely together.

A notice makes every member ask for the list of all. The first change is told in the turn in which it is known, as
RocketMQ does; those of the next moment share one more notice, at its end, so that a hundred members that start together
are not told of each other ten thousand times. A departure waits for no arrival, since its queues are read by nobody
until the others know; it takes waiting arrivals along. Nobody is told later than a tenth of a second after a change.
In groups of more than a hundred members the moment grows with the group, to 0.8 s for a thousand: a notice to them is a
thousand messages, and members, ours and Java's, divide queues once a second at most.
"""

from __future__ import annotations

from collections.abc import Callable

from framework.broker.members import BROADCASTING, MemberGroup
from framework.broker.rounds import Timer, Timers
from framework.wire.codes import RequestCode
from framework.wire.command import ONE_WAY_BIT, RemotingCommand

# What changes this soon after a notice shares the next one: well within the tenth of a second that members may wait.
TOGETHER_S = 0.08
MEMBERS_LARGE, MEMBERS_HUGE = 100, 1_000


class _Due:
    """A notice on its way."""

    __slots__ = ("at", "is_departure", "timer")

    def __init__(self, at: float, is_departure: bool, timer: Timer) -> None:
        self.at = at
        self.is_departure = is_departure
        self.timer = timer


class Notices:
    """One a logical broker. `is_wanted` says whether a group's settings allow notices."""

    def __init__(
        self, timers: Timers, find: Callable[[str], MemberGroup | None], is_wanted: Callable[[str], bool]
    ) -> None:
        self._timers = timers
        self._find = find
        self._is_wanted = is_wanted
        self._due: dict[str, _Due] = {}
        self._told: dict[str, float] = {}
        """When a group was last told of anything."""
        self._departed: dict[str, float] = {}
        """When it was last told of a departure."""

    def arrived(self, group: MemberGroup) -> None:
        """Tell all members, the newcomer too."""
        if self._is_told(group):
            self._tell(group, self._told.get(group.name), is_departure=False)

    def departed(self, group: MemberGroup) -> None:
        """Tell all that are left."""
        if self._is_told(group):
            self._tell(group, self._departed.get(group.name), is_departure=True)

    def clear(self) -> None:
        """Tell nobody any more."""
        for due in self._due.values():
            due.timer.cancel()
        self._due.clear()
        self._told.clear()
        self._departed.clear()

    def _is_told(self, group: MemberGroup) -> bool:
        return group.message_model != BROADCASTING and self._is_wanted(group.name)

    def _tell(self, group: MemberGroup, before: float | None, *, is_departure: bool) -> None:
        """Now, or where a moment has not passed yet since `before`, at its end."""
        name, now = group.name, self._timers.time()
        at = now if before is None else max(before + _moment_s(len(group.members)), now)
        due = self._due.get(name)
        if due is not None:
            is_departure |= due.is_departure
            if due.at <= at:
                due.is_departure = is_departure
                return
            due.timer.cancel()
            del self._due[name]
        if at <= now:
            self._send(name, is_departure=is_departure)
        else:
            self._due[name] = _Due(at, is_departure, self._timers.call_later(at - now, self._send_due, name))

    def _send_due(self, name: str) -> None:
        self._send(name, is_departure=self._due.pop(name).is_departure)

    def _send(self, name: str, *, is_departure: bool) -> None:
        group = self._find(name)
        if group is None:
            self._told.pop(name, None)
            self._departed.pop(name, None)
            return
        self._told[name] = self._timers.time()
        if is_departure:
            self._departed[name] = self._told[name]
        for client in list(group.members):
            client.send(
                RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": name}, flag=ONE_WAY_BIT)
            )


def _moment_s(members: int) -> float:
    """What changes within this shares a notice."""
    return TOGETHER_S * min(max(members, MEMBERS_LARGE), MEMBERS_HUGE) / MEMBERS_LARGE
