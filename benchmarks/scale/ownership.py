"""Ownership: which process has which queue, by what processes log: who gained it, who began to pull it, who let it go.

A queue rests where exactly one process that is alive has it and has found where to begin. It counts moves: a process
that gains a queue. It sees each of them, at its own virtual moment, and costs nothing between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any


class Ownership:
    """Of one group's queues."""

    def __init__(self, now: Callable[[], float], queues: Iterable[str]) -> None:
        self._now = now
        self._owners: dict[str, dict[str, bool]] = {queue: {} for queue in queues}
        """Queue -> processes that have it -> whether they know where to begin."""
        self._away: dict[str, None] = {}
        """Queues of a broker that is down: they need no owner."""
        self._restless = dict.fromkeys(self._owners)
        self.begin()

    def begin(self) -> None:
        """Count anew."""
        self.moves = 0
        self.changed_at = self._now()
        """When anybody gained, began or let go of a queue."""

    @property
    def is_at_rest(self) -> bool:
        return not self._restless

    @property
    def restless(self) -> list[str]:
        return list(self._restless)

    def away(self, queues: Iterable[str]) -> None:
        """These queues, and no others, have no broker now."""
        self._away = dict.fromkeys(queues)
        for queue in self._owners:
            self._look(queue)

    def said(self, who: str, event: Mapping[str, Any]) -> None:
        """A log line of a process."""
        name = event.get("event")
        if name == "assignment changed":
            for queue in event["lost"]:
                self._let_go(who, queue)
            for queue in event["gained"]:
                if queue in self._owners:
                    self.moves += 1
                    self._owners[queue][who] = False
                    self._look(queue)
        elif name == "queue positioned" and event["queue"] in self._owners:
            owners = self._owners[event["queue"]]
            if who in owners:
                owners[who] = True
                self._look(event["queue"])

    def ended(self, who: str) -> None:
        """A process is gone, and its queues are nobody's."""
        for queue in [queue for queue, owners in self._owners.items() if who in owners]:
            self._let_go(who, queue)

    def _let_go(self, who: str, queue: str) -> None:
        if self._owners.get(queue, {}).pop(who, None) is not None:
            self._look(queue)

    def _look(self, queue: str) -> None:
        self.changed_at = self._now()
        owners = list(self._owners[queue].values())
        if owners == [True] or (queue in self._away and not owners):
            self._restless.pop(queue, None)
        else:
            self._restless[queue] = None
