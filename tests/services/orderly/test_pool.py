"""Orderly: one handler a queue, in order; what fails holds its queue and no other."""

from __future__ import annotations

import asyncio

import pytest

from framework.core import limits
from framework.errors import BodyUnavailable
from framework.model.message import Message
from framework.model.outcome import Ack, DeadLetter, Drop, RetryLater, Suspend
from framework.model.queue import MessageQueue
from tests.services.orderly.order_scene import Q1, Q2, Q3, Scene, now
from tests.services.parts import LoopClock, play


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


def test_a_handler_that_hangs_keeps_no_offset_of_those_before_it_back() -> None:
    async def handle(message: Message) -> None:
        if message.queue_offset == 5:
            await asyncio.sleep(3_600)

    async def main() -> None:
        scene = Scene(handle)
        pull = scene.take()
        scene.bring(32)
        await asyncio.sleep(1)
        assert (5, 5) == (scene.committable(), scene.counts.handled)
        assert 1 == pull.running

    play(main)


def test_a_lane_at_rest_keeps_nothing_of_a_pull_alive() -> None:
    async def handle(message: Message) -> None: ...

    async def main() -> None:
        scene = Scene(handle)
        scene.take()
        scene.bring(32)
        await asyncio.sleep(1)
        assert [None] == [line.run.at for line in scene.desk().lanes]

    play(main)


@pytest.mark.parametrize("hangs_at", [1, 5])
def test_what_ended_under_a_lease_that_is_lost_meanwhile_is_counted_once(hangs_at: int) -> None:
    """The worker goes along in place; nobody was told yet of what ended before the handler that lost the lease."""
    scenes: list[Scene] = []

    async def handle(message: Message) -> None:
        if message.queue_offset == hangs_at:
            scenes[0].lose()
            await asyncio.sleep(1)

    async def main() -> None:
        scenes.append(scene := Scene(handle))
        pull = scene.take()
        scene.bring(32)
        await asyncio.sleep(10)
        assert (0, hangs_at + 1) == (scene.counts.handled, scene.late)
        assert hangs_at + 1 == pull.lost

    play(main)


class BusyClock(LoopClock):
    """Handlers may take time without a turn of the loop."""

    spent = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.spent


def test_handlers_that_never_suspend_leave_the_loop_to_others_between_messages() -> None:
    """After some twenty milliseconds, in the middle of a pull's messages."""
    clock, handled_at_breaths = BusyClock(), set()

    async def handle(message: Message) -> None:
        clock.spent += 0.005

    async def main() -> None:
        scene = Scene(handle, clock=clock)
        scene.take()
        scene.bring(32)
        while scene.counts.handled < 32:
            handled_at_breaths.add(scene.counts.handled)
            await asyncio.sleep(0)

    play(main)
    assert len(handled_at_breaths) > 4


@pytest.mark.parametrize("then", ["goes on", "hangs"])
def test_a_queue_that_comes_at_a_breath_of_another_one_s_worker_has_a_worker_of_its_own(then: str) -> None:
    clock, seen, has_come = BusyClock(), set(), False

    async def handle(message: Message) -> None:
        seen.add(message.queue)
        clock.spent += 0.005
        if message.queue == Q1 and has_come and then == "hangs":
            await asyncio.sleep(3_600)

    async def main() -> None:
        nonlocal has_come
        scene = Scene(handle, clock=clock)
        scene.take(Q1)
        scene.take(Q2)
        scene.bring(2_000, Q1)
        for _ in range(4):
            await asyncio.sleep(0)
        scene.bring(1, Q2)
        has_come = True
        for _ in range(4):
            await asyncio.sleep(0)
        assert {Q1, Q2} == seen
        assert 0 < scene.counts.handled < 2_000

    play(main, policy="fifo")


def test_queues_that_come_together_have_one_worker_while_handlers_never_suspend() -> None:
    workers = set()

    async def handle(message: Message) -> None:
        workers.add(asyncio.current_task())

    async def main() -> None:
        scene = Scene(handle)
        for queue in (Q1, Q2, Q3):
            scene.take(queue)
            scene.bring(32, queue)
        await asyncio.sleep(1)
        assert [32, 32, 32] == [scene.committable(queue) for queue in (Q1, Q2, Q3)]

    play(main)
    assert 1 == len(workers)


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
        assert [0, 0, 0] == [scene.orderly.runs(pull.flow.window) for pull in scene.pulls.values()]
        assert not any(map(scene.orderly.is_busy, scene.pulls)), "or a drain would wait for its whole limit"

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
        assert "cannot send back: broker-a: gone" in str(scene.orderly.blocked_because(Q1))
        assert 1 == scene.orderly.unsent
        scene.lock()
        scene.is_broker_down = False
        await asyncio.sleep(25)
        assert (2, [0], [0, 1]) == (scene.committable(), scene.buried, ran)
        assert [("dead_lettered", 0, 1)] == scene.events
        assert 0 == scene.orderly.unsent

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


def test_attempts_are_counted_anew_under_the_next_lease() -> None:
    """They are in memory only, as Java's are: a broker keeps none of a message that was never sent back."""
    tries: list[tuple[int, int]] = []

    async def handle(message: Message) -> RetryLater:
        tries.append((message.queue_offset, message.attempt))
        return RetryLater("1s")

    async def main() -> None:
        scene = Scene(handle)
        scene.take()
        scene.bring(1)
        await asyncio.sleep(2.5)
        assert [(0, 1), (0, 2), (0, 3)] == tries
        scene.lose()
        await asyncio.sleep(5)
        scene.lock()
        scene.bring(1)
        await asyncio.sleep(0.5)
        assert [(0, 1)] == tries[3:]

    play(main)
