"""Held: a message that we lack the means to open stops its queue, and nothing of it is settled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from framework.core.budget import Budget
from framework.core.chunk import Chunk
from framework.core.offsets import OffsetTable
from framework.core.queue_flow import Pull, QueueFlow, Wait
from framework.core.window import FlowLimits
from framework.errors import BodyUnavailable, RecordDamaged
from framework.model.message import Message
from framework.model.outcome import RetryLater
from framework.model.queue import MessageQueue
from framework.net.task_tree import TaskTree
from framework.services.outcome.again import CAUSES, HeldMessages, started_again
from framework.services.pool.run import MessageCounts
from framework.services.pool.tasks import WorkerPool
from framework.services.pool.threads import ThreadPool
from framework.services.queue.position import StartingPoint
from framework.services.queue.pull import PullLoop
from tests.services.parts import PLENTY, QUEUE, LoopClock, Plan, messages_from, play, play_logged, start, told
from tests.services.pool.test_threads import InlineWorkers

T = TypeVar("T")
REMEDY = "codec zstd is missing: install zstandard"


class Nothing:
    """What a pull loop needs and this test does not."""

    async def pull(self, offset: int, committable: Callable[[], int], *, alone: bool = False) -> Any:
        raise AssertionError("nobody pulls here")


class Group:
    """Its pool has two places."""

    def __init__(self) -> None:
        self.tree = TaskTree()
        self.held = HeldMessages("billing", self.tree)
        self.counts, self.offsets = MessageCounts(), OffsetTable()
        self.clock, self.plan = LoopClock(), Plan()
        self.ended = 0
        self.uncommon_ends: list[tuple[int, str]] = []

    def left(self, queue: PullLoop, ended: int, *, is_late: bool = False) -> None:
        self.ended += ended

    def not_success(self, queue: PullLoop, chunk: Chunk, index: int, result: object, started: float) -> None:
        if isinstance(result, CAUSES):
            self.held.put(queue, chunk, index, result)
        else:
            self.uncommon_ends.append((index, repr(result)))

    def not_a_member(self, queue: MessageQueue) -> None:
        raise AssertionError("nobody pulls here")


class Handler:
    """Fails as it is told, for as long as it is told."""

    def __init__(self, *results: object) -> None:
        self.results = list(results)
        self.tried_at: list[float] = []

    async def awaited(self, message: Message) -> object:
        await asyncio.sleep(0)
        return self.plain(message)

    def plain(self, _: Message) -> object:
        self.tried_at.append(round(asyncio.get_running_loop().time(), 2))
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


async def no_start() -> StartingPoint:
    raise AssertionError("nobody pulls here")


class Fixture:
    """A queue that flows, with a chunk of three under way."""

    def __init__(self, call: Callable[[Message], object], *, is_async: bool = True) -> None:
        self.group = Group()
        self.tree, self.held, self.workers = self.group.tree, self.group.held, InlineWorkers()
        self.pool = pool = WorkerPool(2, LoopClock()) if is_async else ThreadPool(2, LoopClock(), self.workers)
        if isinstance(pool, WorkerPool):
            for slot in pool.slots:
                start(pool.work(slot))
        flow = QueueFlow(QUEUE, Budget(PLENTY), FlowLimits())
        self.pull = PullLoop(
            flow, pulls=Nothing(), pool=pool, call=call, not_success=self.group.not_success, find_start=no_start,
            group=self.group,
        )  # fmt: skip
        flow.run = self.pull
        flow.positioned(0)
        chunk = flow.window.admit(messages_from(0, 3), 0, 3, 10)
        assert chunk is not None
        self.chunk = chunk
        self.chunk.next = 3

    def put(self, index: int, cause: Exception) -> None:
        self.held.put(self.pull, self.chunk, index, cause)


@pytest.mark.parametrize("cause", [BodyUnavailable(REMEDY), RecordDamaged(REMEDY), MemoryError()], ids=repr)
def test_the_queue_stands_still_and_the_remedy_is_named(cause: Exception) -> None:
    """Also where the cause has no text of its own."""
    assert isinstance(cause, CAUSES)

    async def story() -> None:
        it = Fixture(Handler(*[cause] * 9).awaited)
        it.put(1, cause)
        await asyncio.sleep(0.1)
        assert isinstance(it.pull.flow.next_step(0), Wait)
        assert 1 == len(it.held)
        await asyncio.sleep(5)
        assert isinstance(it.pull.flow.next_step(0), Wait)
        assert (0, []) == (it.group.ended, it.group.uncommon_ends)
        assert 0 == it.pull.flow.window.settle(), "nothing is settled, nothing goes to the dead letters"
        await it.tree.close()

    _, lines = play_logged(story)
    assert [("queue held", "billing", "orders@broker-a:3", 1, str(cause) or "MemoryError")] == told(
        lines, "group", "queue", "offset", "reason"
    ), "named once"


@pytest.mark.parametrize("is_async", [True, False])
def test_once_the_cause_is_gone_the_message_is_handled_and_the_queue_goes_on(*, is_async: bool) -> None:
    async def story() -> None:
        handler = Handler(BodyUnavailable(REMEDY), None)

        def given(message: Message) -> object:
            """What is put around a handler may be a plain function that gives something to await."""
            return handler.awaited(message)

        it = Fixture(given if is_async else handler.plain, is_async=is_async)
        it.chunk.finish(0)
        it.chunk.finish(2)
        it.put(1, BodyUnavailable(REMEDY))
        await asyncio.sleep(30)
        assert [0.75, 2.25] == handler.tried_at
        assert is_async == (not it.workers.submitted), "a plain handler takes a thread here too"
        assert (1, 0, 0) == (it.group.ended, len(it.held), len(it.tree))
        assert isinstance(it.pull.flow.next_step(0), Pull)
        assert await it.pull.bell.wait(0), "the pull loop is told"
        assert 3 == it.pull.flow.window.settle()

    _, lines = play_logged(story)
    assert ["queue held", "queue released"] == [line["event"] for line in lines]


@pytest.mark.parametrize(
    ("expected", "result"),
    [
        ("RetryLater(delay='30s', reason='')", RetryLater("30s")),
        ("ValueError('no such order')", ValueError("no such order")),
    ],
)
def test_what_it_is_then_goes_the_way_of_every_other(expected: str, result: object) -> None:
    async def story() -> None:
        it = Fixture(Handler(result).awaited)
        it.put(1, BodyUnavailable(REMEDY))
        await asyncio.sleep(30)
        assert [(1, expected)] == it.group.uncommon_ends
        assert isinstance(it.pull.flow.next_step(0), Pull)

    play(story)


def test_several_messages_of_a_queue_hold_it_as_one() -> None:
    async def story() -> None:
        it = Fixture(Handler(None, BodyUnavailable(REMEDY), None).awaited)
        it.put(0, BodyUnavailable(REMEDY))
        it.put(1, BodyUnavailable(REMEDY))
        assert (2, 1) == (len(it.held), len(it.tree))
        await asyncio.sleep(1)
        assert (1, 1) == (len(it.held), it.group.ended)
        assert isinstance(it.pull.flow.next_step(0), Wait)
        await asyncio.sleep(30)
        assert (0, 2, 0) == (len(it.held), it.group.ended, len(it.tree))

    play(story)


def test_a_queue_taken_away_meanwhile_is_let_go() -> None:
    """The next owner will have to hold it."""

    async def story() -> None:
        handler = Handler(None)
        it = Fixture(handler.awaited)
        it.put(1, BodyUnavailable(REMEDY))
        it.pull.flow.revoke()
        await asyncio.sleep(30)
        assert ([], 0, 0) == (handler.tried_at, it.group.ended, len(it.tree))

    play(story)


def test_what_is_tried_again_waits_for_a_place_and_ends_with_its_queue() -> None:
    """It takes one of the pool's, and where none is left it has not begun: another member may be given it."""

    async def story() -> None:
        opened, tried = asyncio.Event(), list[int]()

        async def call(message: Message) -> None:
            tried.append(message.queue_offset)
            await opened.wait()

        it = Fixture(call)
        for index in range(3):
            it.tree.start(started_again(it.pull, it.chunk, index), name="again")
        await asyncio.sleep(1)
        assert (2, 2, 3) == (len(tried), it.pull.running, len(it.pull.flow.window.again))
        it.pull.flow.revoke()
        await asyncio.sleep(1)
        assert (2, 0) == (it.pull.running, len(it.pull.flow.window.again)), "whoever leaves the queue waits for two"
        opened.set()
        await asyncio.sleep(1)
        await started_again(it.pull, it.chunk, 2)
        assert (2, 2, 0) == (len(tried), it.group.ended, it.pull.running), "nothing begins in a queue that is left"

    play(story)


@pytest.mark.parametrize("is_async", [True, False])
def test_what_is_tried_again_is_not_taken_back_with_what_nobody_has_started(*, is_async: bool) -> None:
    """A breaker that opens meanwhile has the pool give back what waits in its window: this waits in none."""

    async def story() -> None:
        tried = list[int]()

        async def call(message: Message) -> None:
            tried.append(message.queue_offset)

        def plain(message: Message) -> None:
            tried.append(message.queue_offset)

        it = Fixture(call if is_async else plain, is_async=is_async)
        again = it.tree.start(started_again(it.pull, it.chunk, 1), name="again")
        await asyncio.sleep(0)
        assert [] == it.pool.take_back(it.pull.flow.window)
        await asyncio.sleep(1)
        assert ([1], True) == (tried, again.done())

    play(story)
