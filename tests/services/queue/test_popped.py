"""PopQueue: a receipt that is being renewed is used by nobody else, since the broker outdates it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace as Namespace
from typing import Any, cast

from framework.client.popper import PopTaken
from framework.core.chunk import Chunk
from framework.model.message import Message
from framework.net.task_tree import TaskTree
from framework.services.queue.popped import PopQueue
from framework.wire.requests.receipts import NORMAL, Receipt
from tests.services.parts import QUEUE, LoopClock, end, play, start

INVISIBLE_MS = 5_000
RENEWAL_S = 1.0


class SlowBroker:
    """Takes its time to answer a renewal; notes the receipts by which everything else is asked of it."""

    invisible_ms = INVISIBLE_MS

    def __init__(self) -> None:
        self.renewals, self.has_forgotten = 0, False
        self.acked: list[int] = []
        self.changed: list[tuple[int, int]] = []

    async def pop(self, most: int) -> Any:
        raise AssertionError("nobody pops")

    async def acknowledge(self, receipts: Sequence[Receipt]) -> None:
        assert receipts
        self.acked += [receipt.popped_ms for receipt in receipts]

    async def change_time(self, receipt: Receipt, invisible_ms: int) -> Receipt | None:
        if invisible_ms != INVISIBLE_MS:
            self.changed.append((receipt.popped_ms, invisible_ms))
            return receipt
        self.renewals += 1
        await asyncio.sleep(RENEWAL_S)
        if self.has_forgotten:
            return None
        return receipt._replace(popped_ms=receipt.popped_ms + 1)


class Scene:
    """One message that is held, at a moment when its renewal is under way."""

    def __init__(self) -> None:
        self.broker, (self.message,) = SlowBroker(), (Message("t", b"0", queue_offset=900),)
        self.queue = PopQueue(
            "g", QUEUE, cast("Any", self.broker), LoopClock(), cast("Any", None), lambda _: True, TaskTree()
        )
        self.chunk = Chunk([self.message], 0, 1, 10)

    async def renewing(self) -> asyncio.Task[None]:
        receipt = Receipt(900, 100, INVISIBLE_MS, 0, NORMAL, "broker-a", 3, 900)
        self.queue.held.take(self.message, receipt, LoopClock().monotonic_ms() + INVISIBLE_MS)
        self.queue.begin(lambda: [self.chunk])
        task = start(self.queue.run())
        while not self.broker.renewals:  # noqa: ASYNC110  # the virtual clock's, which costs nothing
            await asyncio.sleep(0.1)
        return task


def test_what_ended_during_its_renewal_is_acknowledged_by_the_new_receipt_when_the_queue_is_left() -> None:
    async def story() -> list[int]:
        scene = Scene()
        task = await scene.renewing()
        scene.chunk.finish(0)
        await scene.queue.release()
        await end(task)
        return scene.broker.acked

    assert [101] == play(story)


def test_what_is_given_back_during_its_renewal_is_so_by_the_new_receipt() -> None:
    async def story() -> list[tuple[int, int]]:
        scene = Scene()
        task = await scene.renewing()
        await scene.queue.release()
        await end(task)
        return scene.broker.changed

    assert [(101, 1)] == play(story)


def test_what_failed_during_its_renewal_waits_for_its_delay() -> None:
    async def story() -> list[tuple[int, int]]:
        scene = Scene()
        task = await scene.renewing()
        assert await scene.queue.retry(scene.message, 10_000)
        await end(task)
        return scene.broker.changed

    assert [(101, 10_000)] == play(story)


def test_what_was_lost_and_then_failed_gets_no_copy_beside_what_comes_back() -> None:
    async def story() -> tuple[bool, list[tuple[int, int]], int]:
        scene = Scene()
        scene.broker.has_forgotten = True
        task = await scene.renewing()
        await asyncio.sleep(RENEWAL_S + 1)
        is_taken = await scene.queue.retry(scene.message, 10_000)
        await end(task)
        return is_taken, scene.broker.changed, scene.broker.renewals

    assert (True, [], 1) == play(story)


def test_what_is_popped_in_the_turn_in_which_its_caller_is_cancelled_is_given_back() -> None:
    """A pause that comes with the answer: it would be renewed for ever, and handled by nobody."""

    async def story() -> list[tuple[int, int]]:
        broker, tree = SlowBroker(), TaskTree()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        broker.pop = lambda most: answer  # type: ignore[method-assign, assignment, return-value]
        pacing: Any = Namespace(bucket=None)
        queue = PopQueue("g", QUEUE, cast("Any", broker), LoopClock(), pacing, lambda _: True, tree)
        pulling: asyncio.Task[Any] = start(queue._pop(0))
        task = start(queue.run())
        await asyncio.sleep(0.1)
        receipt = Receipt(900, 100, INVISIBLE_MS, 0, NORMAL, "broker-a", 3, 900)
        answer.set_result(PopTaken([(Message("t", b"0", queue_offset=900), receipt)], 1, 0))
        asking = queue._asking
        assert asking is not None
        while not asking.done():  # noqa: ASYNC110  # turn by turn
            await asyncio.sleep(0)
        assert not pulling.done()
        await end(pulling)
        await asyncio.sleep(1)
        await end(task)
        await tree.close()
        return broker.changed

    assert [(100, 1)] == play(story)


def test_many_are_renewed_at_once_and_given_back_at_once() -> None:
    """One by one, the last of them would be hidden no longer before its turn came."""

    async def story() -> tuple[int, int, float]:
        scene, count = Scene(), 60
        messages = [Message("t", b"0", queue_offset=at) for at in range(count)]
        until_ms = LoopClock().monotonic_ms() + INVISIBLE_MS
        for message in messages:
            receipt = Receipt(0, 100, INVISIBLE_MS, 0, NORMAL, "broker-a", 3, message.queue_offset)
            scene.queue.held.take(message, receipt, until_ms)
        scene.queue.begin(lambda: [Chunk(messages, 0, count, 10)])
        task = start(scene.queue.run())
        await asyncio.sleep(INVISIBLE_MS / 1000)
        lost = scene.queue.lost
        began = asyncio.get_running_loop().time()
        await scene.queue.release()
        elapsed = asyncio.get_running_loop().time() - began
        await end(task)
        return lost, len([popped_ms for popped_ms, _ in scene.broker.changed if popped_ms > 100]), elapsed

    lost, given_back, elapsed = play(story)
    assert (0, 60) == (lost, given_back)
    assert elapsed <= 2 * RENEWAL_S
