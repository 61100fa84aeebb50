"""Whose seats a member names to a newcomer, and which of them it keeps on a topic that comes later."""

from __future__ import annotations

import asyncio

from framework.core.group_members import member_named
from tests.services.parts import end, play
from tests.services.test_rebalance import ME, RETRY, Fixture, queues_of

AWAY, HERE = member_named("away", 10_000), member_named("here", 10_000)
NAMELESS = "10.0.0.2@2"


def refunds(it: Fixture) -> int:
    """How many queues of this topic are ours."""
    return sum(queue.topic == "refunds" for queue in it.assignment.queues)


def test_a_member_names_also_those_whom_it_has_not_missed_yet() -> None:
    """A newcomer's own list may lack one that left since: it is to keep its seat, as those do who were there."""

    async def story() -> None:
        it = Fixture()
        it.cluster.listed = [HERE, NAMELESS, ME, AWAY]
        await asyncio.sleep(2)
        assert ({}, (AWAY, HERE)) == (it.loop.absent, it.loop.present)
        it.cluster.listed = [HERE, NAMELESS, ME]
        it.loop.now()
        await asyncio.sleep(2)
        assert (AWAY in it.loop.absent, it.loop.present) == (True, (HERE,))
        await end(it.task)

    play(story)


def test_a_member_that_has_just_joined_passes_on_what_it_was_told() -> None:
    """Before its first look it has seen nobody, and may be the only one that a newcomer can ask."""

    async def story() -> None:
        it = Fixture()
        it.loop.adopt({AWAY: 5_000}, [HERE])
        assert ({AWAY: 5_000}, (HERE,)) == (it.loop.absent, it.loop.present)
        await end(it.task)

    play(story)


def test_a_topic_that_comes_later_counts_nobody_who_has_long_left() -> None:
    async def story() -> None:
        it = Fixture(topics=("orders", RETRY))
        it.cluster.routes |= {RETRY: queues_of(RETRY, 1), "refunds": queues_of("refunds", 4)}
        it.cluster.listed = [ME, HERE]
        it.loop.adopt({}, [HERE])
        await asyncio.sleep(5)
        it.cluster.listed = [ME]
        await asyncio.sleep(60)
        it.loop.resubscribe(("orders", "refunds", RETRY))
        await asyncio.sleep(2)
        assert 4 == refunds(it)
        await end(it.task)

    play(story)


def test_a_topic_that_comes_later_keeps_the_seat_of_one_that_is_away() -> None:
    async def story() -> None:
        it = Fixture(topics=("orders", RETRY))
        it.cluster.routes |= {RETRY: queues_of(RETRY, 1), "refunds": queues_of("refunds", 4)}
        await asyncio.sleep(5)
        it.cluster.listed = [ME, AWAY]
        it.loop.now()
        await asyncio.sleep(5)
        it.cluster.listed = [ME]
        it.loop.now()
        await asyncio.sleep(2)
        it.loop.resubscribe(("orders", "refunds", RETRY))
        await asyncio.sleep(2)
        assert 2 == refunds(it)
        await asyncio.sleep(10)
        assert 4 == refunds(it)
        await end(it.task)

    play(story)
