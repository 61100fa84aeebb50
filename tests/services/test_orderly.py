"""Orderly: one handler a queue, in order, under a lease; what fails holds its queue and no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from framework import marks
from framework.core import limits
from framework.core.budget import Budget
from framework.core.chunk import Chunk
from framework.core.flow_control import FlowLimits
from framework.core.offsets import OffsetTable
from framework.core.order_lease import OrderLease
from framework.core.queue_flow import QueueFlow
from framework.errors import BodyUnavailable, BrokerUnreachable
from framework.model.message import Message
from framework.model.outcome import Ack, DeadLetter, Drop, Outcome, RetryLater, Suspend
from framework.model.queue import MessageQueue
from framework.net.task_tree import TaskTree
from framework.services.orderly import Orderly
from framework.services.position import Start
from framework.services.pull import PullLoop
from framework.services.work import Counts
from tests.services.parts import PLENTY, EvenChance, LoopClock, play, play_logged, told

Q1, Q2, Q3 = (MessageQueue("stock", "broker-a", number) for number in (1, 2, 3))


class Nothing:
    """Pulls that nobody makes here."""

    async def pull(self, offset: int, committable: Callable[[], int]) -> Any:
        raise AssertionError("nobody pulls here")


class InlineWorkers:
    """Jobs run at once, each counted."""

    def __init__(self) -> None:
        self.ran = 0

    async def run(self, job: Callable[[], Any]) -> Any:
        self.ran += 1
        return job()

    def submit(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        raise AssertionError("nobody submits here")

    def call_soon(self, callback: Callable[[], None]) -> None:
        raise AssertionError("no thread is here")


class Scene:
    """One orderly group; it is its broker, its reports and its group's side as well."""

    def __init__(
        self,
        call: Callable[[Message], Any],
        *,
        size: int = 4,
        is_async: bool = True,
        max_retries: int = limits.MAX_RETRIES_IN_ORDER,
        stuck_after_ms: int = limits.STUCK_MS,
    ) -> None:
        self.call, self.is_async = call, is_async
        self.counts, self.clock, self.workers = Counts(), LoopClock(), InlineWorkers()
        self.events: list[tuple[str, int, int]] = []
        self.late = 0
        self.buried: list[int] = []
        self.is_broker_down = False
        self.tree = TaskTree(lambda name, error: pytest.fail(f"{name}: {error!r}"))
        self.pulls: dict[MessageQueue, PullLoop] = {}
        self.leases: dict[MessageQueue, OrderLease] = {}
        self.orderly = Orderly(
            "inventory", size, max_retries=max_retries, stuck_after_ms=stuck_after_ms, brokers=self, reports=self,
            side=self, counts=self.counts, clock=self.clock, workers=self.workers, chance=EvenChance(), tree=self.tree,
        )  # fmt: skip

    def take(self, queue: MessageQueue = Q1) -> PullLoop:
        async def find_start() -> Start:
            raise AssertionError("nobody positions here")

        flow = QueueFlow(queue, Budget(PLENTY), FlowLimits(), needs_lease=True)
        pull = PullLoop(
            flow, pulls=Nothing(), crew=self.orderly, call=self.call, find_start=find_start, offsets=OffsetTable(),
            group=self, group_name="inventory", clock=self.clock,
        )  # fmt: skip
        flow.run = pull
        self.pulls[queue] = pull
        lease = self.leases[queue] = OrderLease(self.clock.monotonic_ms())
        self.orderly.take(pull, lease, is_async=self.is_async)
        self.lock(queue)
        return pull

    def lock(self, queue: MessageQueue = Q1, at: int = 0) -> None:
        now_ms, lease, flow = self.clock.monotonic_ms(), self.leases[queue], self.pulls[queue].flow
        if lease.granted(lease.ask(now_ms), now_ms):
            flow.lease_granted()
            flow.positioned(at)

    def lose(self, queue: MessageQueue = Q1) -> None:
        """As the group does it."""
        self.leases[queue].unconfirmed(self.clock.monotonic_ms())
        self.pulls[queue].flow.lease_lost()
        self.orderly.clear(queue)

    def bring(self, count: int, queue: MessageQueue = Q1, *, chunks: int = 1) -> list[Chunk]:
        brought = []
        for _ in range(chunks):
            window = self.pulls[queue].flow.window
            first = window.end
            messages = [Message("stock", b"x", queue=queue, queue_offset=first + step) for step in range(count)]
            chunk = window.admit(messages, first, first + count, 10 * count)
            assert chunk is not None
            self.orderly.offer(chunk)
            brought.append(chunk)
        return brought

    def committable(self, queue: MessageQueue = Q1) -> int:
        return self.pulls[queue].flow.window.settle()

    # The broker

    async def dead_letter(self, message: Message, group: str) -> None:
        await asyncio.sleep(0.01)
        if self.is_broker_down:
            raise BrokerUnreachable("broker-a: gone")
        self.buried.append(message.queue_offset)

    # The reports

    def ended(self, event: str, group: str, message: Message, outcome: Outcome, elapsed_ms: float) -> None:
        self.events.append((event, message.queue_offset, message.attempt))

    def failed(self, group: str, message: Message, error: Exception) -> None:
        self.events.append((f"{error}", message.queue_offset, message.attempt))

    # The group's side

    def left(self, queue: PullLoop, ended: int, *, is_late: bool = False) -> None:
        if is_late:
            self.late += ended
        else:
            self.counts.handled += ended

    def uncommon(self, queue: PullLoop, chunk: Chunk, index: int, result: object, started: float) -> None:
        raise AssertionError("the crew decides itself here")

    def not_a_member(self) -> None:
        raise AssertionError("nobody pulls here")


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("is_async", [True, False])
def test_messages_of_a_queue_are_handled_one_after_the_other(is_async: bool) -> None:
    seen: list[int] = []

    async def handle(message: Message) -> None:
        seen.append(message.queue_offset)
        await asyncio.sleep(0.5)
        assert seen[-1] == message.queue_offset, "nothing behind it has started"

    def handle_at_once(message: Message) -> None:
        seen.append(message.queue_offset)

    async def main() -> None:
        scene = Scene(handle if is_async else handle_at_once, is_async=is_async)
        scene.take()
        scene.bring(4, chunks=3)
        await asyncio.sleep(10)
        assert list(range(12)) == seen
        assert (12, 12) == (scene.committable(), scene.counts.handled)

    play(main)


def test_threads_take_a_run_of_quick_messages_at_once() -> None:
    async def main() -> int:
        scene = Scene(lambda _: None, is_async=False)
        scene.take()
        scene.bring(32)
        await asyncio.sleep(1)
        assert 32 == scene.committable()
        return scene.workers.ran

    assert 1 == play(main)


def test_queues_run_beside_each_other_up_to_the_group_s_concurrency() -> None:
    at_work: dict[MessageQueue, None] = {}
    most: list[int] = []

    async def handle(message: Message) -> None:
        at_work[message.queue] = None
        most.append(len(at_work))
        await asyncio.sleep(1)
        del at_work[message.queue]

    async def main() -> None:
        scene = Scene(handle, size=2)
        for queue in (Q1, Q2, Q3):
            scene.take(queue)
            scene.bring(2, queue)
        await asyncio.sleep(1.5)
        assert [1, 1, 0] == [scene.orderly.runs(pull.flow.window) for pull in scene.pulls.values()]
        await asyncio.sleep(8)
        assert [2, 2, 2] == [scene.committable(queue) for queue in (Q1, Q2, Q3)]

    play(main)
    assert 2 == max(most)


def test_a_turn_ends_after_a_minute_so_that_others_come_to_theirs() -> None:
    first_of_q2: list[float] = []

    async def handle(message: Message) -> None:
        if message.queue == Q2:
            first_of_q2.append(now())
        await asyncio.sleep(1)

    async def main() -> None:
        scene = Scene(handle, size=1)
        scene.take(Q1)
        scene.take(Q2)
        scene.bring(100, Q1)
        scene.bring(1, Q2)
        for _ in range(20):
            await asyncio.sleep(5)
            scene.lock(Q1)
            scene.lock(Q2)

    play(main)
    assert limits.TURN_MS / 1000 <= first_of_q2[0] <= limits.TURN_MS / 1000 + 1.5


@pytest.mark.parametrize(
    ("result", "pause_s"), [(Suspend("5s"), 5.0), (RetryLater(), 1.0), (ValueError("no"), 1.0), (Suspend("1ms"), 0.01)]
)
def test_what_fails_is_tried_again_in_place_after_its_pause(result: object, pause_s: float) -> None:
    tries: list[tuple[float, int, int]] = []

    async def handle(message: Message) -> object:
        tries.append((now(), message.queue_offset, message.attempt))
        if message.queue_offset == 1 and message.attempt < 3:
            if isinstance(result, Exception):
                raise result
            return result
        return None

    async def main() -> None:
        scene = Scene(handle)
        scene.take()
        scene.bring(2, chunks=2)
        await asyncio.sleep(pause_s * 1.5)
        assert 1 == scene.committable(), "nothing behind it has started, and nothing of it is committed"
        if pause_s < 1:
            await asyncio.sleep(1)
        else:
            assert "blocked after 2 attempts" in str(scene.orderly.blocked_because(Q1))
        await asyncio.sleep(pause_s)
        assert scene.orderly.blocked_because(Q1) is None
        assert (4, 2, 4) == (scene.committable(), scene.counts.retried, scene.counts.handled)
        assert [("retry", 1, 1), ("retry", 1, 2)] == [event for event in scene.events if event[0] == "retry"]

    play(main)
    assert [(0, 1), (1, 1), (1, 2), (1, 3), (2, 1), (3, 1)] == [each[1:] for each in tries]
    pauses = [tries[2][0] - tries[1][0], tries[3][0] - tries[2][0]]
    assert all(pause_s <= pause < pause_s + 0.01 for pause in pauses), pauses


def test_a_queue_that_waits_takes_no_worker_from_the_others() -> None:
    async def handle(message: Message) -> Suspend | None:
        return Suspend("30s") if message.queue == Q1 else None

    async def main() -> None:
        scene = Scene(handle, size=1)
        for queue in (Q1, Q2):
            scene.take(queue)
            scene.bring(3, queue)
        await asyncio.sleep(1)
        assert (0, 3) == (scene.committable(Q1), scene.committable(Q2))

    play(main)


def test_past_its_maximum_exactly_that_message_is_a_dead_letter_and_the_queue_goes_on() -> None:
    async def handle(message: Message) -> object:
        return Suspend("10ms") if message.queue_offset == 1 else None

    async def main() -> None:
        scene = Scene(handle, max_retries=2)
        scene.take()
        scene.bring(4)
        await asyncio.sleep(1)
        assert ([1], 4) == (scene.buried, scene.committable())
        assert [("retry", 1, 1), ("retry", 1, 2), ("dead_lettered", 1, 3)] == scene.events
        assert (3, 2, 1) == (scene.counts.handled, scene.counts.retried, scene.counts.dead_lettered)

    play(main)


def test_a_dead_letter_that_cannot_be_sent_is_sent_again_and_the_handler_not_run_again() -> None:
    ran: list[int] = []

    async def handle(message: Message) -> object:
        ran.append(message.queue_offset)
        return DeadLetter("nonsense") if message.queue_offset == 0 else None

    async def main() -> None:
        scene = Scene(handle)
        scene.take()
        scene.bring(2)
        scene.is_broker_down = True
        await asyncio.sleep(20)
        assert (0, [0]) == (scene.committable(), ran)
        assert "cannot send: broker-a: gone" in str(scene.orderly.blocked_because(Q1))
        scene.lock()
        scene.is_broker_down = False
        await asyncio.sleep(25)
        assert (2, [0], [0, 1]) == (scene.committable(), scene.buried, ran)
        assert [("dead_lettered", 0, 1)] == scene.events

    play(main)


def test_what_cannot_be_opened_holds_its_queue_and_is_no_attempt() -> None:
    tries: list[int] = []

    async def handle(message: Message) -> None:
        tries.append(message.attempt)
        if len(tries) < 4:
            raise BodyUnavailable("codec zstd is missing: install zstandard")

    async def main() -> None:
        scene = Scene(handle, max_retries=0)
        scene.take()
        scene.bring(1)
        await asyncio.sleep(1)
        assert "codec zstd is missing" in str(scene.orderly.blocked_because(Q1))
        await asyncio.sleep(10)
        assert (1, [], []) == (scene.committable(), scene.buried, scene.events)

    play(main)
    assert [1, 1, 1, 1] == tries


@pytest.mark.parametrize(("result", "event"), [(Ack(), None), ("done", None), (Drop("me"), "dropped")])
def test_other_ends_count_as_what_they_are(result: object, event: str | None) -> None:
    async def handle(_: Message) -> object:
        return result

    async def main() -> None:
        scene = Scene(handle)
        scene.take()
        scene.bring(2)
        await asyncio.sleep(1)
        assert 2 == scene.committable()
        assert ([] if event is None else [(event, 0, 1), (event, 1, 1)]) == scene.events
        assert 2 == scene.counts.handled + scene.counts.dropped

    play(main)


def test_a_cancellation_within_the_handler_is_its_failure() -> None:
    async def handle(message: Message) -> None:
        if message.attempt == 1:
            raise asyncio.CancelledError

    async def main() -> None:
        scene = Scene(handle)
        scene.take()
        scene.bring(1)
        await asyncio.sleep(2)
        assert (1, 1) == (scene.committable(), scene.counts.retried)

    play(main)


# Leases


def test_nothing_starts_when_the_lease_has_run_out() -> None:
    ran: list[int] = []

    async def handle(message: Message) -> None:
        ran.append(message.queue_offset)
        await asyncio.sleep(10)

    async def main() -> None:
        scene = Scene(handle)
        scene.take()
        scene.bring(10)
        await asyncio.sleep(60)
        assert (2, 1) == (scene.committable(), scene.late), (
            "the third ended after the lease: its result changes nothing"
        )

    play(main)
    assert [0, 1, 2] == ran


def late_end(*, is_noticed: bool) -> tuple[int, int]:
    """(handled, late) of a message whose handler ends after its lease: taken away, or run out before anybody saw it."""

    async def handle(_: Message) -> None:
        await asyncio.sleep(30)

    async def main() -> tuple[int, int]:
        scene = Scene(handle)
        scene.take()
        scene.bring(1)
        await asyncio.sleep(1)
        if is_noticed:
            scene.lose()
        await asyncio.sleep(40)
        return scene.counts.handled, scene.late

    return play(main)


@pytest.mark.parametrize("is_noticed", [True, False])
def test_a_result_after_a_lost_lease_changes_nothing(is_noticed: bool) -> None:
    assert (0, 1) == late_end(is_noticed=is_noticed)


def test_without_the_safeguard_it_would_count() -> None:
    """So that the mutant is one."""
    marks.install(holds=lambda name: name != "a late result changes nothing")
    try:
        assert (1, 0) == late_end(is_noticed=False)
    finally:
        marks.install()


def test_a_new_lease_waits_for_the_handler_that_still_runs_from_the_old_one() -> None:
    """At most one handler a queue in a process, whatever happened to its lease."""
    at_work: list[int] = []
    ran: list[tuple[float, int]] = []

    async def handle(message: Message) -> None:
        assert not at_work
        at_work.append(message.queue_offset)
        ran.append((now(), message.queue_offset))
        await asyncio.sleep(5)
        at_work.clear()

    async def main() -> None:
        scene = Scene(handle)
        scene.take()
        scene.bring(2)
        await asyncio.sleep(1)
        scene.lose()
        await asyncio.sleep(1)
        scene.lock()
        scene.bring(2)
        assert 1 == scene.orderly.runs(scene.pulls[Q1].flow.window)
        await asyncio.sleep(20)
        assert (2, 1) == (scene.committable(), scene.late)

    play(main)
    assert [0, 0, 1] == [offset for _, offset in ran]
    assert ran[1][0] >= 5


def test_a_queue_that_was_left_with_a_running_handler_and_comes_back_waits_for_it() -> None:
    at_work: list[int] = []

    async def handle(message: Message) -> None:
        assert not at_work
        at_work.append(message.queue_offset)
        await asyncio.sleep(5)
        at_work.clear()

    async def main() -> None:
        scene = Scene(handle)
        pull = scene.take()
        scene.bring(1)
        await asyncio.sleep(1)
        pull.flow.revoke()
        pull.flow.released()
        scene.orderly.leave(Q1)
        assert scene.orderly.is_busy(Q1)
        scene.take()
        scene.bring(1)
        await asyncio.sleep(20)
        assert (1, 1) == (scene.committable(), scene.late)

    play(main)


def test_what_ends_while_its_queue_is_given_back_counts() -> None:
    async def handle(_: Message) -> None:
        await asyncio.sleep(5)

    async def main() -> None:
        scene = Scene(handle)
        pull = scene.take()
        scene.bring(3)
        await asyncio.sleep(1)
        pull.flow.revoke()
        await pull.quiet.wait(now() + 30)
        assert (1, 1, 0) == (scene.committable(), scene.counts.handled, scene.late)
        assert not scene.orderly.is_busy(Q1)
        scene.orderly.leave(Q1)
        assert not scene.orderly.is_busy(Q1)

    play(main)


def test_what_fails_while_its_queue_is_given_back_is_the_next_owner_s() -> None:
    async def handle(_: Message) -> Suspend:
        await asyncio.sleep(5)
        return Suspend()

    async def main() -> None:
        scene = Scene(handle, max_retries=0)
        pull = scene.take()
        scene.bring(3)
        await asyncio.sleep(1)
        pull.flow.revoke()
        assert await pull.quiet.wait(now() + 30)
        assert (0, []) == (scene.committable(), scene.buried)

    play(main)


def test_a_queue_that_was_moved_meanwhile_does_not_wait_out_the_old_pause() -> None:
    ran: list[tuple[float, int]] = []

    async def handle(message: Message) -> Suspend | None:
        ran.append((now(), message.queue_offset))
        return Suspend("30s") if message.queue_offset == 0 else None

    async def main() -> None:
        scene = Scene(handle)
        pull = scene.take()
        scene.bring(1)
        await asyncio.sleep(1)
        pull.flow.reset(100)
        scene.bring(1)
        await asyncio.sleep(1)
        assert 101 == scene.committable()

    play(main)
    assert [0, 100] == [offset for _, offset in ran]


# Queues that do not get on


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


def test_its_repr_is_its_instrument_panel() -> None:
    async def main() -> str:
        scene = Scene(lambda _: None)
        scene.take()
        return repr(scene.orderly)

    assert "<Orderly inventory: 0 of 1 queues at work, 0 wait>" == play(main)
