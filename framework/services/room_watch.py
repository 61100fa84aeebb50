"""RoomWatch: checks that each group has retry queues: before it joins, when routes change, and every 30 s.

`client/retry_rooms.py` says what is found, and what follows from it at a send-back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from framework.client.retry_rooms import RetryRooms
from framework.mistakes import RetryQueueMissing
from framework.net.wakeup import Wakeup
from framework.ports import Chance

LOOK_SECONDS = 30.0  # as often as routes are refreshed; no route says that a group has changed
LOOK_SECONDS_MIN = 5.0  # a storm of new routes is one look

Groups = Callable[[], list[tuple[str, tuple[str, ...]]]]
"""Each group and the topics that it consumes."""


class RoomWatch:
    """One per application."""

    def __init__(self, rooms: RetryRooms, groups: Groups, chance: Chance) -> None:
        self._rooms, self._groups, self._chance = rooms, groups, chance
        self._bell = Wakeup()

    async def refuse(self) -> None:
        """Look now, and raise ConfigurationError where a group must not begin."""
        groups = self._groups()
        await self._rooms.look(groups)
        found = [complaint for group, _ in groups for complaint in self._rooms.complaints(group)]
        if found:
            raise RetryQueueMissing("; ".join(found))

    def soon(self) -> None:
        """Something has changed: look before it is time."""
        self._bell.ring()

    async def run(self) -> None:
        now = asyncio.get_running_loop().time
        while True:
            began = now()
            is_early = await self._bell.wait(began + LOOK_SECONDS * (0.9 + 0.2 * self._chance.random()))
            if is_early and (left := began + LOOK_SECONDS_MIN - now()) > 0:
                await asyncio.sleep(left)
            await self._rooms.look(self._groups())
