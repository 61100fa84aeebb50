"""Orderly queues that do not get on are named, once."""

from __future__ import annotations

import asyncio

from framework.model.message import Message
from tests.services.orderly.order_scene import Q1, Q2, Q3, Scene
from tests.services.parts import play, play_logged, told


def test_a_queue_that_one_message_blocks_for_too_long_is_reported_once() -> None:
    async def handle(message: Message) -> None:
        if message.queue_offset == 0 and message.attempt < 100:
            raise ValueError("no such article")

    async def main() -> None:
        scene = Scene(handle, stuck_after_ms=60_000)
        scene.take()
        scene.bring(2)
        for _ in range(40):
            await asyncio.sleep(5)
            scene.lock()
        assert 2 == scene.committable()

    _, lines = play_logged(main)
    (stuck,) = [line for line in lines if line["event"] == "queue stuck"]
    assert 0 == stuck["offset"]
    assert 55 <= stuck["attempts"] <= 61
    assert 60_000 <= stuck["blocked_ms"] < 61_000
    assert "ValueError: no such article" == stuck["reason"]
    assert ("queue no longer stuck", str(Q1)) in told(lines, "queue")


def test_a_handler_that_never_ends_is_reported_too() -> None:
    async def handle(_: Message) -> None:
        await asyncio.sleep(200)

    async def main() -> str | None:
        scene = Scene(handle, stuck_after_ms=60_000)
        scene.take()
        scene.bring(1)
        for _ in range(15):
            await asyncio.sleep(5)
            scene.lock()
        return scene.orderly.blocked_because(Q1)

    reason, lines = play_logged(main)
    assert "its handler has not ended for long" == reason
    assert [("queue stuck", 0, "its handler still runs")] == told(lines, "attempts", "reason")


def test_each_stuck_queue_is_reported_when_its_own_time_has_come() -> None:
    """One timer serves all: it is set for the oldest of those that are still to be reported."""

    async def handle(_: Message) -> None:
        await asyncio.sleep(500)

    async def main() -> None:
        scene = Scene(handle, stuck_after_ms=60_000)
        begun = {0: Q1, 2: Q2, 6: Q3}
        for turn in range(30):
            if turn in begun:
                scene.take(begun[turn])
                scene.bring(1, begun[turn])
            await asyncio.sleep(5)
            for queue in scene.pulls:
                scene.lock(queue)

    _, lines = play_logged(main)
    stuck = [line for line in lines if line["event"] == "queue stuck"]
    assert [str(Q1), str(Q2), str(Q3)] == [line["queue"] for line in stuck]
    assert all(60_000 <= line["blocked_ms"] < 61_000 for line in stuck)


def test_its_repr_is_its_instrument_panel() -> None:
    async def main() -> str:
        scene = Scene(lambda _: None)
        scene.take()
        return repr(scene.orderly)

    assert "<Orderly inventory: 0 of 1 queues at work, 0 wait>" == play(main)
