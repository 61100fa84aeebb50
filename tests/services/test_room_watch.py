"""When retry queues are looked at: before a group joins, where routes change, and each thirty seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, cast

import pytest

from framework.errors import ConfigurationError
from framework.services.room_watch import RoomWatch
from tests.services.parts import EvenChance, end, play, start


class Rooms:
    def __init__(self, *lacking: str) -> None:
        self.lacking = lacking
        self.looked: list[float] = []

    async def look(self, groups: Iterable[tuple[str, Iterable[str]]]) -> None:
        assert ["billing", "audit"] == [group for group, _ in groups]
        self.looked.append(round(asyncio.get_running_loop().time(), 1))

    def complaints(self, group: str) -> list[str]:
        return [f"group {group}: retryQueueNums is 0"] if group in self.lacking else []


def watch(rooms: Rooms) -> RoomWatch:
    return RoomWatch(cast("Any", rooms), lambda: [("billing", ("orders",)), ("audit", ("orders",))], EvenChance())


def test_a_start_is_refused_with_every_group_that_lacks_one() -> None:
    async def story() -> None:
        await watch(Rooms()).refuse()
        with pytest.raises(ConfigurationError, match=r"^group billing: [^;]+; group audit: [^;]+$"):
            await watch(Rooms("billing", "audit")).refuse()

    play(story)


def test_it_looks_each_thirty_seconds() -> None:
    async def story() -> None:
        rooms = Rooms()
        task = start(watch(rooms).run())
        await asyncio.sleep(100)
        await end(task)
        assert [30.0, 60.0, 90.0] == rooms.looked

    play(story)


def test_a_storm_of_new_routes_is_one_look() -> None:
    async def story() -> None:
        rooms = Rooms()
        it = watch(rooms)
        task = start(it.run())
        for _ in range(40):
            it.soon()
            await asyncio.sleep(0.1)
        await asyncio.sleep(16)
        await end(task)
        assert [5.0, 10.0] == rooms.looked, "one for what came before it, and one that was wished for meanwhile"

    play(story)
