"""PullLoop: does what its flow says, and hands over what comes."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from framework.client.fences import Fence
from framework.core.window import FlowLimits
from framework.errors import BrokerUnreachable, FrameworkError
from framework.hooks.listeners import Listeners
from framework.model.pulled import ChunkSummary, Failed, NothingNew, OffsetIllegal
from framework.services.queue.position import StartingPoint
from tests.services.parts import QUEUE, end, play, play_logged, told, turns
from tests.services.queue.pull_scene import Fixture, found

BEHIND, AHEAD = OffsetIllegal(40, 7, 40), OffsetIllegal(500, 500, 900)
NOTHING_STORED = StartingPoint(7, "nothing stored, policy first -> 7", None)


def test_pulls_follow_each_other_from_the_stored_offset_and_chunks_go_to_the_pool() -> None:
    async def story() -> None:
        it = Fixture(found(100, 3), NothingNew(110, 0, 110), found(110, 2))
        await asyncio.sleep(1)
        await end(it.task)

        assert [(100, 0), (103, 0), (110, 0), (112, 0)] == it.script.asked
        assert [(100, 103), (110, 112)] == [(chunk.begin, chunk.end) for chunk in it.pool.chunks]
        assert all(chunk.run is it.loop for chunk in it.pool.chunks)
        assert 2 == it.loop.running

    _, lines = play_logged(story)
    assert [("queue positioned", "billing", "orders@broker-a:3", 100, "stored 100")] == told(
        lines, "group", "queue", "offset", "reason"
    )


def test_what_is_committable_rides_on_the_next_pull_and_is_then_clean() -> None:
    async def story() -> None:
        it = Fixture(found(100, 3), found(103, 3), bounds=FlowLimits(messages_max=2))
        await turns()
        assert [(100, 0)] == it.script.asked
        it.finish(it.pool.chunks[0])
        assert [(QUEUE, 103)] == it.offsets.dirty()
        await turns()
        assert [(100, 0), (103, 103)] == it.script.asked
        assert [] == it.offsets.dirty()
        await end(it.task)

    play(story)


def test_a_chunk_s_bytes_are_told_once_with_its_last_message() -> None:
    """However many workers leave it, and though the last of them leaves it after it is over."""

    async def story() -> list[ChunkSummary]:
        told_of: list[ChunkSummary] = []
        listeners = Listeners(lambda name: told_of.append if name == "after_chunk" else None)
        it = Fixture(found(100, 3, size=300), listeners=listeners)
        await turns()
        (chunk,) = it.pool.chunks
        chunk.next, chunk.low = 3, 2
        it.loop.left(chunk, 2)
        chunk.low = 3
        it.loop.left(chunk, 1)
        it.loop.left(chunk, 0)
        await end(it.task)
        return told_of

    assert [(2, 0), (1, 300)] == [(summary.handled, summary.bytes) for summary in play(story)]


def test_a_failed_pull_takes_back_that_its_offset_was_told() -> None:
    """It may never have arrived, and where traffic ends there is no next pull for a while."""

    async def story() -> None:
        it = Fixture(found(100, 3), Failed("connection lost"), bounds=FlowLimits(messages_max=2))
        await turns()
        it.finish(it.pool.chunks[0])
        await asyncio.sleep(0.1)
        assert [(100, 0), (103, 103)] == it.script.asked
        assert [(QUEUE, 103)] == it.offsets.dirty()
        await end(it.task)

    play(story)


def test_failures_stand_back_and_are_named_on_entering_and_on_leaving() -> None:
    async def story() -> list[float]:
        it = Fixture(Failed("connection lost"), Failed("connection lost"), NothingNew(100, 0, 100))
        await asyncio.sleep(10)
        await end(it.task)
        return it.script.asked_at

    instants, lines = play_logged(story)
    waits = [after - before for before, after in itertools.pairwise(instants)]
    assert [0.5, 1.0, 0.0] == [round(wait, 1) for wait in waits]
    assert ["queue positioned", "pull failed", "pull recovered"] == [line["event"] for line in lines]
    assert [("pull failed", "connection lost")] == told(lines[1:], "reason")


def test_a_broker_that_does_not_know_us_gets_a_heartbeat() -> None:
    """24: no such subscription, 25: an older one. No other failure is mended by a heartbeat."""

    async def story() -> int:
        it = Fixture(Failed("no subscription", 24), Failed("old subscription", 25), Failed("busy", 2), Failed("gone"))
        await asyncio.sleep(20)
        await end(it.task)
        assert 5 == len(it.script.asked)
        return it.group.not_a_member_calls

    assert 2 == play(story)


def test_a_heartbeat_that_was_heard_lets_one_pull_go_at_once() -> None:
    """One: who is refused again although it was heard stands back, or the two would go round as fast as they can."""

    async def story() -> list[float]:
        it = Fixture(*[Failed("no subscription", 24)] * 3, NothingNew(100, 0, 100))
        it.loop.introduced()
        for _ in range(50):
            await asyncio.sleep(0.1)
            it.loop.introduced()
        await end(it.task)
        return it.script.asked_at

    waits = [after - before for before, after in itertools.pairwise(play(story))]
    assert [0.1, 1.0, 2.0] == [round(wait, 1) for wait in waits[:3]]


def test_what_was_doubted_and_stands_goes_on_with_all_it_holds() -> None:
    async def story() -> None:
        it = Fixture(
            found(100, 3), OffsetIllegal(0, 0, 0), NothingNew(103, 0, 103),
            starts=(StartingPoint(100, "stored 100", 100), StartingPoint(100, "stored 100", 100)),
        )  # fmt: skip
        await turns()
        (chunk,) = it.pool.chunks
        it.finish(chunk)
        assert [100, 103, 103, 103] == [offset for offset, _ in it.script.asked]
        assert 103 == it.offsets.committable(QUEUE)
        await end(it.task)

    _, lines = play_logged(story)
    assert [("position kept", "moved by its broker to 0, but stored 100")] == told(lines[1:], "reason")


def test_a_position_that_cannot_be_had_is_named_and_asked_again_and_nothing_is_pulled_meanwhile() -> None:
    async def story() -> None:
        it = Fixture(starts=(BrokerUnreachable("broker-a gives no answer"), StartingPoint(7, "stored 7", 7)))
        await asyncio.sleep(0.4)
        assert [] == it.script.asked
        assert it.offsets.committable(QUEUE) is None
        await asyncio.sleep(0.2)
        assert [(7, 0)] == it.script.asked
        await end(it.task)

    _, lines = play_logged(story)
    assert ["pull failed", "pull recovered", "queue positioned"] == [line["event"] for line in lines]
    assert ("pull failed", "broker-a gives no answer") in told(lines, "reason")


def test_a_queue_that_lacks_its_first_record_is_named_as_what_it_is() -> None:
    """No pull has failed: it was a record of progress that a broker refused."""
    refusals = [FrameworkError("its first record of progress could not be written: SEND_MESSAGE_V2 (310) refused")]

    class Progress:
        passing, fence = None, Fence()

        async def handed_over(self) -> None: ...
        async def begin(self, offset: int, stored: int | None) -> bool:
            if refusals:
                raise refusals.pop()
            return True

        def begun(self, window: object) -> None: ...
        def is_moved(self, window: object) -> bool:
            return False

    async def story() -> None:
        it = Fixture(starts=(StartingPoint(7, "stored 7", 7), StartingPoint(7, "stored 7", 7)))
        it.loop.progress = Progress()  # type: ignore[assignment]  # as much of it as this takes
        await asyncio.sleep(2)
        await end(it.task)

    _, lines = play_logged(story)
    assert ["queue not begun", "pull recovered", "queue positioned"] == [line["event"] for line in lines]
    assert "first record of progress could not be written: SEND_MESSAGE_V2" in lines[0]["reason"]


def test_a_queue_moved_by_its_broker_goes_on_from_there_and_says_so() -> None:
    async def story() -> None:
        it = Fixture(found(100, 3), OffsetIllegal(40, 40, 160), found(40, 2))
        await turns()
        old, new = it.pool.chunks
        it.finish(old)
        assert 40 == it.offsets.committable(QUEUE), "what was held lies outside of the broker's range"
        it.finish(new)
        assert 42 == it.offsets.committable(QUEUE)
        await end(it.task)
        assert [(100, 0), (103, 0), (40, 40), (42, 40)] == it.script.asked

    _, lines = play_logged(story)
    assert [("queue moved", 103, 40)] == told(lines, "offset", "to")


@pytest.mark.parametrize(
    ("answer", "asked_again", "begins", "reason"),
    [
        (BEHIND, StartingPoint(101, "stored 101", 101), 101, "moved by its broker to 40, but stored 101"),
        # A topic made again has no offsets: what lies below 40 is not what was read, and none of it is to be skipped.
        (BEHIND, NOTHING_STORED, 7, "moved by its broker to 40, but nothing stored, policy first -> 7"),
        (AHEAD, NOTHING_STORED, 500, "moved by its broker to 500, and nothing stored"),
    ],
)
def test_what_the_master_has_stored_stands_above_an_offset_that_is_far_away(
    answer: OffsetIllegal, asked_again: StartingPoint, begins: int, reason: str
) -> None:
    async def story() -> None:
        it = Fixture(
            found(100, 3), answer, found(begins, 2),
            starts=(StartingPoint(100, "stored 100", 100), asked_again),
        )  # fmt: skip
        await turns()
        _, new = it.pool.chunks
        it.finish(new)
        assert begins + 2 == it.offsets.committable(QUEUE)
        await end(it.task)
        assert [100, 103, begins, begins + 2] == [offset for offset, _ in it.script.asked]

    _, lines = play_logged(story)
    assert [("queue positioned", 100, "stored 100"), ("queue positioned", begins, reason)] == told(
        lines, "offset", "reason"
    )


def test_a_full_queue_pulls_again_when_a_chunk_has_ended() -> None:
    async def story() -> None:
        it = Fixture(found(100, 2), found(102, 2), found(104, 2), bounds=FlowLimits(messages_max=3))
        await turns()
        assert [(100, 0), (102, 0)] == it.script.asked
        assert "count" == it.flow.held_because
        it.finish(it.pool.chunks[1])
        await turns()
        assert 3 == len(it.script.asked), "behind the gap, but its messages are let go"
        it.finish(it.pool.chunks[0])
        await turns()
        assert (106, 104) == it.script.asked[-1]
        await end(it.task)

    play(story)


def test_the_end_of_a_chunk_moves_the_offset_and_is_counted_once() -> None:
    async def story() -> None:
        it = Fixture(found(100, 3))
        await turns()
        (chunk,) = it.pool.chunks
        chunk.next, chunk.low = 3, 2
        it.loop.left(chunk, 2)
        assert (2, 100) == (it.group.ended, it.offsets.committable(QUEUE)), "an unfinished chunk is read when flushed"
        chunk.low = 3
        it.loop.left(chunk, 1)
        it.loop.left(chunk, 0)
        assert (3, 103) == (it.group.ended, it.offsets.committable(QUEUE))
        assert 0 == it.budget.used
        it.loop.not_success(chunk, 1, "a result", 0.0)
        assert [(1, "a result")] == it.group.uncommon_ends
        await end(it.task)

    play(story)


def test_its_repr_is_its_flows() -> None:
    async def story() -> str:
        it = Fixture()
        await end(it.task)
        assert 0 == it.loop.running
        return repr(it.loop)

    assert "<PullLoop <QueueFlow orders@broker-a:3 positioning next=0 window=<Window closed>>>" == play(story)
