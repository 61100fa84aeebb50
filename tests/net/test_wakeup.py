"""Wakeup: a ring is never lost, and a deadline ends the wait."""

from __future__ import annotations

import asyncio

from framework.net.wakeup import Wakeup


def test_a_ring_wakes_the_sleeper() -> None:
    async def story() -> bool:
        bell = Wakeup()
        asyncio.get_running_loop().call_soon(bell.ring)
        return await bell.wait(None)

    assert asyncio.run(story())


def test_a_ring_before_the_wait_is_kept_and_many_are_one() -> None:
    async def story() -> tuple[bool, bool]:
        bell = Wakeup()
        bell.ring()
        bell.ring()
        first = await bell.wait(None)
        return first, await bell.wait(asyncio.get_running_loop().time() + 0.001)

    assert (True, False) == asyncio.run(story())


def test_a_deadline_that_has_passed_ends_the_wait_at_once() -> None:
    async def story() -> bool:
        return await Wakeup().wait(asyncio.get_running_loop().time() - 1)

    assert not asyncio.run(story())


def test_a_cancelled_wait_leaves_the_bell_usable() -> None:
    async def story() -> bool:
        bell = Wakeup()
        loop = asyncio.get_running_loop()
        sleeper = loop.create_task(bell.wait(loop.time() + 60))
        await asyncio.sleep(0)
        assert "<Wakeup asleep>" == repr(bell)
        sleeper.cancel()
        await asyncio.sleep(0)
        bell.ring()
        return await bell.wait(None)

    assert asyncio.run(story())
