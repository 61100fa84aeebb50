"""Telling members that their group changed, at once; changes that follow closely share one more notice."""

from __future__ import annotations

from collections.abc import Callable

from framework.broker.members import BROADCASTING, Group
from framework.broker.timers import Timers
from framework.wire.codes import RequestCode
from framework.wire.command import ONE_WAY_BIT, Command

# A notice makes every member ask for the list: ten joins in a burst need not cost a hundred questions.
MERGE_S = 0.1


class Notices:
    """One a logical broker. `is_wanted` says whether a group's settings allow notices."""

    def __init__(self, timers: Timers, find: Callable[[str], Group | None], is_wanted: Callable[[str], bool]) -> None:
        self._timers = timers
        self._find = find
        self._is_wanted = is_wanted
        # Groups with a notice sent lately, and whether one more is due when that time is over.
        self._recent: dict[str, bool] = {}

    def changed(self, group: Group) -> None:
        """Tell all members, the one that caused it too, in the loop's next turn: after its own answer."""
        if group.message_model == BROADCASTING or not self._is_wanted(group.name):
            return
        if group.name in self._recent:
            self._recent[group.name] = True
            return
        self._recent[group.name] = False
        self._timers.call_soon(self._send, group.name)

    def _send(self, name: str) -> None:
        self._recent[name] = False
        group = self._find(name)
        if group is not None:
            for client in list(group.members):
                client.send(Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": name}, flag=ONE_WAY_BIT))
        self._timers.call_later(MERGE_S, self._over, name)

    def _over(self, name: str) -> None:
        if self._recent.get(name):
            self._send(name)
        else:
            self._recent.pop(name, None)
