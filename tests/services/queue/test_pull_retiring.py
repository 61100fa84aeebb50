"""PullLoop: a queue that another member gets, whatever its loop is at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from framework.core.queue_flow import QueueState
from framework.core.window import FlowLimits
from framework.model.pulled import PullResult
from tests.services.parts import play, turns
from tests.services.queue.pull_scene import Fixture, Script, found


def test_a_retired_queue_ends_its_loop_where_it_waits_for_room() -> None:
    async def story() -> None:
        it = Fixture(found(100, 4), bounds=FlowLimits(messages_max=3))
        await turns()
        it.flow.revoke()
        it.loop.bell.ring()
        await turns()
        assert it.task.done()
        assert it.task.exception() is None

    play(story)


def test_a_queue_retired_during_a_long_poll_hands_over_nothing_that_comes_late() -> None:
    async def story() -> None:
        it = Fixture(found(100, 2))
        await turns()
        assert 2 == len(it.script.asked)
        it.flow.revoke()
        it.task.cancel()
        await turns()
        assert it.task.cancelled()
        assert 1 == it.script.abandoned
        assert 1 == len(it.pool.chunks)

    play(story)


def test_an_answer_that_crosses_the_retiring_is_dropped() -> None:
    async def story() -> None:
        answered = asyncio.Event()

        class Late(Script):
            async def pull(self, offset: int, committable: Callable[[], int], *, alone: bool = False) -> PullResult:
                self.asked.append((offset, committable()))
                await answered.wait()
                return found(100, 2)

        it = Fixture()
        it.script.pull = Late().pull  # type: ignore[method-assign]  # this one only
        await turns()
        it.flow.revoke()
        answered.set()
        await turns()
        assert [] == it.pool.chunks
        assert it.task.done()
        assert QueueState.RETIRING is it.flow.state
        assert 0 == it.budget.used

    play(story)
