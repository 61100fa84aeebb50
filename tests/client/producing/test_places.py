"""Places: no more than there are, in the order of the asking, and none is lost to a cancellation."""

from __future__ import annotations

import asyncio

from framework.client.producing.places import Places
from tests.net.memory import virtually


def test_who_waits_longest_goes_first_and_nobody_passes() -> None:
    async def story() -> tuple[list[int], int]:
        places, begun = Places(2), list[int]()

        async def send(number: int) -> None:
            await asyncio.sleep(number / 10)
            await places.take()
            begun.append(number)
            await asyncio.sleep(1)
            places.give()

        tasks = [asyncio.ensure_future(send(number)) for number in range(5)]
        await asyncio.sleep(0.9)
        assert [0, 1] == begun, "no more than there are"
        for task in tasks:
            await task
        return begun, places.free

    assert ([0, 1, 2, 3, 4], 2) == virtually(story)


def test_a_place_goes_to_the_next_where_one_is_cancelled_while_it_waits_or_when_its_turn_comes() -> None:
    async def story() -> list[int]:
        places = Places(1)
        await places.take()
        waits, turned, last = [asyncio.ensure_future(places.take()) for _ in range(3)]
        await asyncio.sleep(0)
        waits.cancel()
        await asyncio.sleep(0)
        places.give()  # to the second, which is cancelled before it hears of it
        turned.cancel()
        await last
        found = [places.free]
        places.give()
        return [*found, places.free]

    assert [0, 1] == virtually(story)
