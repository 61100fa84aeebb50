"""Orderly queues under their leases: nothing starts without one, and what ends after one changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from framework.model.message import Message
from framework.model.outcome import Suspend
from tests.services.orderly.order_scene import Q1, InlineWorkers, Scene, now
from tests.services.parts import play
from tests.simulation.left_out import left_out


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


class LateWorkers(InlineWorkers):
    """Threads that begin two seconds after they were asked for."""

    def submit(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        asyncio.get_running_loop().call_later(2, super().submit, job, done)


@pytest.mark.parametrize("batch", [0, 10])
@pytest.mark.parametrize("is_moved", [True, False])
def test_a_thread_that_begins_late_starts_nothing_of_what_was_given_up(*, batch: int, is_moved: bool) -> None:
    """The queue was moved meanwhile (a reset, a topic made again) under a lease that holds, or its lease is over."""
    ran: list[int] = []

    def handle(message: Message) -> None:
        ran.append(message.queue_offset)

    def handle_all(messages: Sequence[Message]) -> None:
        ran.extend(message.queue_offset for message in messages)

    async def main() -> None:
        scene = Scene(handle_all if batch else handle, is_async=False, batch=batch, workers=LateWorkers())
        pull = scene.take()
        scene.bring(3)
        await asyncio.sleep(1)
        if is_moved:
            pull.reset(7)
        else:
            scene.lose()
        await asyncio.sleep(10)
        assert ([], 0, 0) == (ran, scene.counts.handled, scene.late)
        if is_moved:
            scene.bring(1)
            await asyncio.sleep(10)
            assert [7] == ran

    play(main)


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
    with left_out("a late result changes nothing"):
        assert (1, 0) == late_end(is_noticed=False)


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


def test_a_dead_letter_that_could_not_be_sent_is_not_sent_for_a_queue_that_was_lost() -> None:
    """It belongs to the lease that is over. Kept beyond it, it would be sent again and again and never end."""

    async def fail(_: Message) -> None:
        raise ValueError("poison")

    async def main() -> None:
        scene = Scene(fail, max_retries=0)
        scene.take()
        scene.is_broker_down = True
        scene.bring(1)
        await asyncio.sleep(1)
        scene.lose()
        scene.is_broker_down = False
        await asyncio.sleep(5)
        assert not scene.buried

        scene.lock()
        scene.bring(1)
        await asyncio.sleep(20)
        assert [0] == scene.buried, "its own, once"
        assert 1 == scene.committable()

    play(main)
