"""A lock's answer, the next request and a release in one turn of the loop, in whatever order they come to run."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, cast

import pytest

from framework.core import limits
from framework.core.order_lease import OrderLease
from framework.errors import BrokerUnreachable
from framework.model.queue import MessageQueue
from framework.services.orderly.lease import LeaseLoop
from tests.services.parts import LoopClock, end, play, start, turns

A1, A2 = MessageQueue("stock", "broker-a", 1), MessageQueue("stock", "broker-a", 2)
WHERE = "broker-a:10911"
SEEDS = range(15)
"""Orders in which what is ready runs."""


class Broker:
    """Answers when it is told to. What reaches it stands in `heard`, in order."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[Collection[MessageQueue] | None]] = []
        self.heard: list[str] = []
        self.under_way: Counter[MessageQueue] = Counter()

    def where(self, queue: MessageQueue) -> str:
        return WHERE

    async def lock(self, group: str, client_id: str, queues: Sequence[MessageQueue]) -> Collection[MessageQueue]:
        self.heard.append("lock")
        self.under_way.update(queues)
        answer: asyncio.Future[Collection[MessageQueue] | None] = asyncio.get_running_loop().create_future()
        self.waiting.append(answer)
        try:
            held = await answer
        finally:
            self.under_way.subtract(queues)
        if held is None:
            raise BrokerUnreachable("broker-a: gone")
        return held

    async def unlock(self, group: str, client_id: str, queues: Sequence[MessageQueue]) -> None:
        assert not any(self.under_way[queue] for queue in queues), "a broker may take two requests in either order"
        self.heard.append("unlock")


class Scene:
    def __init__(self) -> None:
        self.broker = Broker()
        self.told: list[str] = []
        self.loop = LeaseLoop(
            "inventory", "me@1", cast("Any", self.broker), LoopClock(),
            granted=lambda _: self.told.append("granted"), lost=lambda _: self.told.append("lost"),
        )  # fmt: skip
        self.running = start(self.loop.run())

    def answer(self, held: Collection[MessageQueue] | None) -> None:
        self.broker.waiting.pop(0).set_result(held)


@pytest.mark.parametrize("first", [(A1,), (), None], ids=["granted", "refused", "failed"])
@pytest.mark.parametrize("second", [(A1,), (), None], ids=["granted", "refused", "failed"])
def test_a_release_waits_for_each_request_that_is_under_way_when_it_wakes(
    first: Collection[MessageQueue] | None, second: Collection[MessageQueue] | None
) -> None:
    """The connection was lost meanwhile, so the next request goes out in the turn in which the first is answered."""

    async def story() -> None:
        scene = Scene()
        scene.loop.claim(A1)
        await turns()
        release = start(scene.loop.release(A1))
        await turns()
        scene.loop.connection_lost(WHERE)
        scene.answer(first)
        await asyncio.sleep(limits.LEASE_RETRY_MS / 1000 + 0.1)
        while scene.broker.waiting:
            assert not release.done()
            scene.answer(second)
            await turns()
        await release
        assert scene.loop.of(A1) is None
        assert (["unlock"] if scene.broker.heard[-1] == "unlock" else []) == [
            each for each in scene.broker.heard if each == "unlock"
        ]
        await asyncio.sleep(60)
        assert not scene.broker.waiting, "nothing more is asked for"
        assert not scene.running.done()
        await end(scene.running)

    for seed in SEEDS:
        play(story, seed=seed)


def test_a_lock_that_came_in_the_turn_of_its_release_is_given_back() -> None:
    async def story() -> None:
        scene = Scene()
        scene.loop.claim(A1)
        await turns()
        release = start(scene.loop.release(A1))
        scene.answer([A1])
        await release
        assert ["lock", "unlock"] == scene.broker.heard
        await end(scene.running)

    for seed in SEEDS:
        play(story, seed=seed)


def test_a_queue_that_is_claimed_again_in_the_turn_of_its_release_has_a_lease_of_its_own() -> None:
    """What the former one knew, and who waited for it, is over."""

    async def story() -> None:
        scene = Scene()
        former = scene.loop.claim(A1)
        await turns()
        scene.answer([])
        await turns()
        assert scene.loop.waits_because(A1) is not None
        await scene.loop.release(A1)
        assert scene.loop.waits_because(A1) is None
        lease = scene.loop.claim(A1)
        await turns()
        scene.answer([A1])
        await turns()
        assert (False, True, ["granted"]) == (former.is_granted, lease.is_granted, scene.told)
        await end(scene.running)

    for seed in SEEDS:
        play(story, seed=seed)


def test_one_queue_is_released_while_another_of_its_broker_is_asked_for_with_it() -> None:
    async def story() -> None:
        scene = Scene()
        scene.loop.claim(A1)
        lease = scene.loop.claim(A2)
        await turns()
        releases = [start(scene.loop.release(A1))]
        await turns()
        scene.loop.connection_lost(WHERE)
        scene.answer([A1, A2])
        await turns()
        while scene.broker.waiting:
            scene.answer([A1, A2])
            await turns()
        for release in releases:
            await release
        assert (None, True, 1) == (scene.loop.of(A1), lease.is_granted, scene.broker.heard.count("unlock"))
        await end(scene.running)

    for seed in SEEDS:
        play(story, seed=seed)


@pytest.mark.parametrize("steps", range(5))
def test_a_loop_that_is_started_anew_asks_again_for_what_was_under_way(steps: int) -> None:
    """It is supervised: what fails in it once must not leave a queue without a lock for ever. In some of these orders
    the request is cancelled before its first step, and has no end of its own.
    """

    async def story() -> None:
        scene = Scene()
        await turns()
        lease = scene.loop.claim(A1)
        for _ in range(steps):
            await asyncio.sleep(0)
        await end(scene.running)
        scene.broker.waiting.clear()
        scene.running = start(scene.loop.run())
        await asyncio.sleep(limits.LEASE_RETRY_MS / 1000 + 0.1)
        scene.answer([A1])
        await turns()
        assert lease.is_granted
        await scene.loop.release(A1)
        assert "unlock" == scene.broker.heard[-1]
        await end(scene.running)

    for seed in SEEDS:
        play(story, seed=seed)


@pytest.mark.timeout(30)  # who waits for what has ended would never let anybody else run
@pytest.mark.parametrize("steps", range(5))
def test_who_releases_when_the_loop_has_ended_waits_for_nobody(steps: int) -> None:
    async def story() -> None:
        scene = Scene()
        await turns()
        scene.loop.claim(A1)
        for _ in range(steps):
            await asyncio.sleep(0)
        await end(scene.running)
        await scene.loop.release(A1)
        assert scene.loop.of(A1) is None

    for seed in SEEDS:
        play(story, seed=seed)


# The lease itself: one request after the other


def test_what_a_request_of_before_a_loss_says_is_believed_neither_way_by_the_one_behind_it() -> None:
    lease = OrderLease(0)
    old = lease.ask(0)
    assert not lease.unconfirmed(10)
    assert not lease.granted(old, 20)
    assert (False, True) == (lease.is_granted, lease.is_due(20))
    new = lease.ask(20)
    assert not lease.is_due(20)
    assert lease.granted(new, 30)
    assert not lease.refused(old, 40), "it was about the lock of before"
    assert lease.is_granted


def test_each_end_of_a_request_lets_the_next_one_go_out() -> None:
    for ended in ("granted", "refused", "failed"):
        lease = OrderLease(0)
        asking = lease.ask(0)
        if ended == "granted":
            lease.granted(asking, 5)
        elif ended == "refused":
            lease.refused(asking, 5)
        else:
            lease.failed(5)
        assert not lease.is_due(6)
        assert lease.is_due(limits.LEASE_RENEW_MS if ended == "granted" else 5 + limits.LEASE_RETRY_MS)
        assert (ended != "refused") == lease.may_be_held


def test_a_lock_that_may_be_held_is_given_back_though_it_was_lost_since() -> None:
    """The broker has it in our name: whoever is next would wait a minute for it."""

    async def story() -> None:
        scene = Scene()
        lease = scene.loop.claim(A1)
        await turns()
        scene.answer([A1])
        await asyncio.sleep(limits.LEASE_TRUST_MS / 1000 + 1)
        assert not lease.is_granted
        release = start(scene.loop.release(A1))
        scene.answer(None)
        await release
        assert ["granted", "lost"] == scene.told
        assert "unlock" == scene.broker.heard[-1]
        await end(scene.running)

    play(story)
