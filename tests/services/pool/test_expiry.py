"""Handlers that take too long are given up at their limit, and what they answer later changes nothing."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from framework.core.expiry import Slot
from framework.hooks.builtin.expiry.dead_letter import DeadLetterPolicy
from framework.hooks.builtin.expiry.extend import ExtendPolicy
from framework.hooks.builtin.expiry.send_back import SendBackPolicy
from framework.model.contracts import ExpiryPolicy
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.outcome import DeadLetter, Extend, Outcome
from framework.net.real_world import RealWorkers
from framework.net.task_tree import TaskTree
from framework.services.pool.expiry import Expiry
from framework.services.pool.tasks import WorkerPool
from framework.services.pool.threads import ThreadPool
from tests.services.parts import Books, Line, LoopClock, play, play_logged, start, told
from tests.simulation.left_out import left_out

RESULT, START = "the result of an expired handler changes nothing", "a limit counts from the start of the handler"


class Scene:
    """A pool of tasks with an expiry, and books about its messages."""

    def __init__(
        self,
        handler: Callable[[Message], Any],
        size: int,
        *,
        timeout_ms: int | None = 60_000,
        policy: ExpiryPolicy | None = None,
    ) -> None:
        self.books = Books(handler)
        self.tree = TaskTree()
        self.pool = WorkerPool(size, LoopClock(), self._hire)
        self._hire(self.pool.slots)
        self.expiry = Expiry("billing", (self.pool,), LoopClock(), policy or SendBackPolicy(), timeout_ms)
        self.tree.start(self.expiry.run(), name="expiry")

    def _hire(self, slots: Iterable[Slot]) -> None:
        for slot in slots:
            self.tree.start(self.pool.work(slot), name="worker")

    def offer(self, count: int) -> None:
        self.pool.offer(self.books.admit(count))


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_thousand_sleeping_handlers_expire_within_a_tenth_of_a_second_each() -> None:
    started: dict[int, float] = {}
    ended: dict[int, float] = {}

    async def sleep(message: Message) -> None:
        started[message.queue_offset] = now()
        try:
            await asyncio.sleep(3_600)
        finally:
            ended[message.queue_offset] = now()

    async def story() -> None:
        scene = Scene(sleep, 1_000)
        for _ in range(50):
            scene.offer(20)
            await asyncio.sleep(0.37)  # so that each chunk has limits of its own
        await asyncio.sleep(61)
        late = [ended[each] - started[each] - 60 for each in range(1_000)]
        assert 0 <= min(late)
        assert max(late) <= 0.1
        assert dict.fromkeys(range(1_000), 1) == Counter(offset for offset, _ in scene.books.uncommon_ends)
        assert (0, 0) == (scene.books.ended, scene.books.lates)
        assert 1_000 == scene.books.window.settle()
        assert (1_000, 0, 0) == (len(scene.pool.slots), len(scene.pool.fenced), scene.pool.missing)
        await scene.tree.close()

    play(story)


async def calls_to_give_one_up(size: int, pool_of: Callable[[int], WorkerPool | ThreadPool]) -> int:
    """Python's calls, so that a busy machine changes nothing."""
    calls = 0

    def note(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    pool = pool_of(size)
    slot = pool.slots[size // 2]
    if isinstance(pool, WorkerPool):
        pool._slots[slot] = start(asyncio.sleep(0))
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        pool.fence(slot)
    finally:
        sys.setprofile(before)
    await asyncio.sleep(0.001)
    assert (size, 1, 0) == (len(pool.slots), len(pool.fenced), pool.missing)
    return calls


def test_giving_one_up_costs_the_same_among_ten_and_among_a_thousand() -> None:
    """So that a thousand that are over their limit in one breath are given up within it."""

    async def story() -> None:
        def tasks(size: int) -> WorkerPool:
            return WorkerPool(size, LoopClock())

        def threads(size: int) -> ThreadPool:
            return ThreadPool(size, LoopClock(), RealWorkers())

        assert await calls_to_give_one_up(10, tasks) == await calls_to_give_one_up(1_000, tasks)
        assert await calls_to_give_one_up(10, threads) == await calls_to_give_one_up(1_000, threads)

    play(story)


def test_a_limit_that_is_changed_holds_for_what_runs_already() -> None:
    async def story() -> None:
        ended: list[float] = []

        async def sleep(_: Message) -> None:
            try:
                await asyncio.sleep(3_600)
            finally:
                ended.append(now())

        scene = Scene(sleep, 2, timeout_ms=900_000)
        begun = now()
        scene.offer(1)
        await asyncio.sleep(30)
        scene.expiry.adopt(SendBackPolicy(), 60_000)
        await asyncio.sleep(29)
        assert [] == ended
        await asyncio.sleep(5)
        (at,) = ended
        assert 60 <= at - begun <= 60.1

        scene.offer(1)
        await asyncio.sleep(1)
        scene.expiry.adopt(SendBackPolicy(), None)
        await asyncio.sleep(600)
        assert 1 == len(ended), "no limit any more"
        scene.expiry.adopt(DeadLetterPolicy(), 60_000)
        await asyncio.sleep(0.2)
        assert 2 == len(ended), "one that is over the new limit already"
        assert "timed_out DeadLetter" in scene.books.uncommon_ends[1][1]
        await scene.tree.close()

    play(story)


def queued_behind() -> list[float]:
    """How long handlers of ten seconds each ran, one after the other, under a limit of fifteen."""
    ran: list[float] = []

    async def sleep(_: Message) -> None:
        begun = now()
        try:
            await asyncio.sleep(10)
        finally:
            ran.append(now() - begun)

    async def story() -> None:
        scene = Scene(sleep, 1, timeout_ms=15_000)
        scene.books.pulled_at = now()
        scene.offer(5)
        await asyncio.sleep(65)
        await scene.tree.close()

    play(story)
    return ran


def test_the_limit_counts_from_the_handlers_start_and_not_from_the_pull() -> None:
    assert [10] * 5 == [round(seconds) for seconds in queued_behind()]
    with left_out(START):
        assert [10] * 5 != [round(seconds) for seconds in queued_behind()], "so that the mutant is one"


def swallowed() -> tuple[int, int, int]:
    """A handler that does not heed its cancellation and ends well after all: ends, late ends, and not_success ones."""

    async def stubborn(_: Message) -> None:
        for _again in range(3):
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                continue

    async def story() -> tuple[int, int, int]:
        scene = Scene(stubborn, 1)
        scene.offer(1)
        await asyncio.sleep(1_000)
        books = scene.books
        await scene.tree.close()
        return books.ended, books.lates, len(books.uncommon_ends)

    return play(story)


def test_a_late_result_is_counted_and_changes_nothing() -> None:
    assert (0, 1, 1) == swallowed()
    with left_out(RESULT):
        assert swallowed() != (0, 1, 1), "so that the mutant is one"


def test_handlers_that_heed_no_cancellation_are_replaced_until_as_many_hang_as_may_run() -> None:
    async def story() -> None:
        opened, runs = asyncio.Event(), Counter[int]()

        async def stubborn(message: Message) -> None:
            runs[message.queue_offset] += 1
            while not opened.is_set():
                try:
                    await opened.wait()
                except asyncio.CancelledError:
                    continue

        scene = Scene(stubborn, 2)
        scene.offer(10)
        shown = []
        for _ in range(4):
            await asyncio.sleep(60.5)
            shown.append((len(scene.pool.slots), len(scene.pool.fenced), scene.pool.missing))
        assert [(2, 2, 0), (0, 4, 2), (0, 4, 2), (0, 4, 2)] == shown
        assert {1} == set(runs.values())
        assert 4 == len(runs), "nobody is left to begin another"
        assert 0 == scene.pool.runs(scene.books.window), "whoever gives the queue back does not wait for them"

        opened.set()
        await asyncio.sleep(1)
        assert (2, 0, 0) == (len(scene.pool.slots), len(scene.pool.fenced), scene.pool.missing)
        assert (10, 6, 4) == (scene.books.window.settle(), scene.books.ended, scene.books.lates)
        await scene.tree.close()

    play(story)


class Each:
    """A policy that answers what it is told to, and notes what it was asked."""

    name = "each"

    def __init__(self, *answers: Extend | Outcome) -> None:
        self.answers, self.asked = list(answers), list[tuple[int, int]]()

    def decide(self, delivery: Delivery, age_ms: int) -> Extend | Outcome:
        self.asked.append((delivery.message.queue_offset, age_ms))
        return self.answers.pop(0)


async def sleep_long(_: Message) -> None:
    await asyncio.sleep(3_600)


def test_a_policy_may_let_a_handler_run_on() -> None:
    async def story() -> None:
        policy = Each(Extend("30s"), Extend(), DeadLetter("enough"))
        scene = Scene(sleep_long, 1, policy=policy)
        scene.offer(1)
        await asyncio.sleep(200)
        assert [0, 0, 0] == [offset for offset, _ in policy.asked]
        assert [60, 90, 150] == [round(age_ms / 1000) for _, age_ms in policy.asked]
        assert 1 == len(scene.books.uncommon_ends)
        await scene.tree.close()

    play(story)


def test_a_handler_that_runs_on_is_named_each_time() -> None:
    async def story() -> None:
        scene = Scene(sleep_long, 1, policy=ExtendPolicy())
        scene.offer(1)
        await asyncio.sleep(185)
        await scene.tree.close()

    _, lines = play_logged(story)
    assert [("handler extended", "orders@broker-a:3", 0)] * 3 == told(lines, "queue", "offset")


def test_many_that_expire_together_are_one_line() -> None:
    async def story() -> None:
        scene = Scene(sleep_long, 20)
        scene.offer(20)
        await asyncio.sleep(61)
        await scene.tree.close()

    lines: list[Line]
    _, lines = play_logged(story)
    assert [("handlers timed out", 20, 60_000, "send_back")] == told(lines, "count", "limit_ms", "policy")


def test_what_belongs_to_another_member_is_given_up_without_a_verdict() -> None:
    async def story() -> None:
        policy = Each()
        scene = Scene(sleep_long, 1, policy=policy)
        scene.offer(1)
        await asyncio.sleep(10)
        scene.books.window.close()
        await asyncio.sleep(60)
        assert [] == policy.asked
        assert [] == scene.books.uncommon_ends
        assert 0 == len(scene.pool.fenced)
        await scene.tree.close()

    play(story)


def test_what_was_decided_is_carried_out_by_a_stop_that_comes_within_the_turn() -> None:
    """A handler that is given up is no more in the way of a stop, which may come before what follows is done."""

    async def sleep(_: Message) -> None:
        await asyncio.sleep(3_600)

    async def story() -> None:
        scene = Scene(sleep, 3, timeout_ms=None)
        scene.offer(3)
        await asyncio.sleep(30)
        expiry = Expiry("billing", (scene.pool,), LoopClock(), SendBackPolicy(), 10_000)
        running = asyncio.get_running_loop().create_task(expiry.run())
        asyncio.get_running_loop().call_soon(running.cancel)
        await asyncio.gather(running, return_exceptions=True)
        assert running.cancelled()
        assert [0, 1, 2] == sorted(offset for offset, _ in scene.books.uncommon_ends)
        await scene.tree.close()

    play(story)
