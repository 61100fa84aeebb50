"""The pace of a queue: a rate hands answers on bit by bit, and what waits for its time is not lost."""

from __future__ import annotations

import asyncio

import pytest

from framework.model.pulled import Found
from framework.model.rate import to_rate
from framework.services.queue.pacing import Pacing
from tests.services.parts import LoopClock, end, messages_from, play, start, turns
from tests.services.queue.pull_scene import Fixture, found


def test_with_a_rate_an_answer_is_handed_on_bit_by_bit() -> None:
    async def story() -> None:
        it = Fixture(found(100, 12, size=1_000), pacing=Pacing(to_rate("100/s"), LoopClock()))
        await asyncio.sleep(0.01)
        assert [(100, 105)] == [(chunk.begin, chunk.end) for chunk in it.pool.chunks]
        assert (105, True, False) == (it.flow.next_offset, it.loop.waits_for_rate, it.flow.caught_up)
        await asyncio.sleep(0.05)
        assert [(100, 105), (105, 110)] == [(chunk.begin, chunk.end) for chunk in it.pool.chunks]
        await asyncio.sleep(0.05)
        assert (110, 112) == (it.pool.chunks[-1].begin, it.pool.chunks[-1].end)
        assert 1_000 == sum(chunk.size for chunk in it.pool.chunks) == it.budget.used
        assert [(100, 0), (112, 0)] == it.script.asked
        await end(it.task)

    play(story)


def test_a_batch_goes_at_once_and_is_paid_for() -> None:
    async def story() -> None:
        it = Fixture(found(100, 20), pacing=Pacing(to_rate("10/s"), LoopClock()), batch=10)
        await asyncio.sleep(0.99)
        assert [10] == [chunk.count for chunk in it.pool.chunks]
        await asyncio.sleep(0.02)
        assert [10, 10] == [chunk.count for chunk in it.pool.chunks]
        await end(it.task)

    play(story)


def test_queues_of_a_group_share_its_rate() -> None:
    async def story() -> None:
        pacing = Pacing(to_rate("10/s"), LoopClock())
        both = [Fixture(found(100, 20), pacing=pacing) for _ in range(2)]
        await asyncio.sleep(1.01)
        assert [5, 6] == sorted(sum(chunk.count for chunk in it.pool.chunks) for it in both)
        await end(*(it.task for it in both))

    play(story)


@pytest.mark.parametrize(("rate", "taken"), [(None, 20), ("1000/s", 20), ("1/m", 1)])
def test_another_rate_acts_at_once_whatever_was_waited_for(rate: str | None, taken: int) -> None:
    async def story() -> None:
        pacing = Pacing(to_rate("1/h"), LoopClock())
        it = Fixture(found(100, 20), pacing=pacing)
        await asyncio.sleep(1)
        assert 1 == sum(chunk.count for chunk in it.pool.chunks)
        pacing.change(None if rate is None else to_rate(rate))
        await asyncio.sleep(0.5)
        more = 1 if rate == "1/m" else 0  # what was paid for at another rate is forgotten
        assert taken + more == sum(chunk.count for chunk in it.pool.chunks)
        await end(it.task)

    play(story)


def test_what_waits_for_its_time_is_pulled_again_by_whoever_has_the_queue() -> None:
    async def story() -> None:
        it = Fixture(found(100, 20), pacing=Pacing(to_rate("1/s"), LoopClock()))
        await asyncio.sleep(0.5)
        await end(it.task)
        assert (101, False) == (it.flow.next_offset, it.loop.waits_for_rate)
        again = start(it.loop.run())
        await turns()
        assert (101, 0) == it.script.asked[-1]
        await end(again)

    play(story)


def test_an_answer_that_contradicts_itself_is_judged_whole() -> None:
    async def story() -> None:
        answer = Found(messages_from(100, 20), 100, 110, 0, 10_000)
        it = Fixture(answer, pacing=Pacing(to_rate("1/s"), LoopClock()))
        await asyncio.sleep(0.01)
        assert ([], 100) == (it.pool.chunks, it.flow.next_offset)
        assert it.flow.failure is not None
        await end(it.task)

    play(story)
