"""Members that start together take their first queues in a quiet moment, and are not kept from it for long."""

from __future__ import annotations

import asyncio

from framework.core import limits
from tests.services.parts import end, play
from tests.services.test_rebalance import ME, OTHER, Fixture, queues_of


def test_members_that_start_together_wait_for_each_other() -> None:
    """Each notice in the first round is followed by a quiet moment: what was to be handed on is not taken."""

    async def story() -> None:
        it = Fixture()
        await it.cluster.members_asked.wait()
        for number in range(8):
            it.cluster.listed = [ME, *(f"{OTHER}{each}" for each in range(number))]
            it.loop.now()
            await asyncio.sleep(0.05)
            assert not it.owned
        await asyncio.sleep(0.2)
        assert [("orders", 1)] == [(topic, len(change.gained)) for topic, change in it.changes]
        assert 2 == len(it.cluster.asked_members_at), "once at first, and once it is quiet"
        await end(it.task)

    play(story)


def test_who_joins_others_waits_for_a_quiet_moment_and_who_is_alone_does_not() -> None:
    async def story(*listed: str) -> list[float]:
        it = Fixture(topics=("orders", "payments"))
        it.cluster.routes["payments"] = queues_of("payments", 4)
        it.cluster.listed = [*listed]
        await asyncio.sleep(0.5)
        assert ["orders", "payments"] == [topic for topic, _ in it.changes]
        await end(it.task)
        return it.cluster.asked_members_at

    assert [0.0] == [round(at, 1) for at in play(lambda: story(ME))]
    assert [0.0, 0.1] == [round(at, 1) for at in play(lambda: story(ME, OTHER))], "once for all topics"


def test_the_first_queues_are_taken_no_sooner_than_asked() -> None:
    async def story() -> None:
        it = Fixture()
        it.loop.wait(1_500)
        await asyncio.sleep(1.4)
        assert not it.owned
        await asyncio.sleep(0.2)
        assert [0, 1, 2, 3] == it.owned
        await end(it.task)

    play(story)


def test_nobody_waits_for_others_for_long() -> None:
    async def story() -> None:
        it = Fixture()
        await it.cluster.members_asked.wait()
        begun = asyncio.get_running_loop().time()
        while not it.owned:
            it.loop.now()
            await asyncio.sleep(0.05)
        waited_ms = (asyncio.get_running_loop().time() - begun) * 1000
        assert limits.GATHER_MAX_MS <= waited_ms <= limits.GATHER_MAX_MS + 2 * limits.GATHER_MS
        await end(it.task)

    play(story)
