"""CommitLoop: tells the brokers what they do not know, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from framework.core.budget import Budget
from framework.core.offsets import OffsetTable
from framework.core.queue_flow import QueueFlow, QueueState
from framework.core.window import FlowLimits
from framework.errors import BrokerUnreachable, FrameworkError, Refused
from framework.hooks.listeners import Listeners
from framework.model.queue import MessageQueue
from framework.services.offsets.commit import CommitLoop
from framework.services.queue.pull import PullLoop
from tests.services.parts import PLENTY, QUEUE, end, messages_from, play, play_logged, start, told
from tests.simulation.left_out import left_out

OTHER = MessageQueue("orders", "broker-b", 0)


@dataclass
class Brokers:
    """Notes what it is sent; a broker in `failing` raises instead."""

    failing: dict[str, FrameworkError] = field(default_factory=dict)
    one_way: list[tuple[str, int]] = field(default_factory=list)
    answered: list[tuple[str, int]] = field(default_factory=list)
    stall: asyncio.Event | None = None
    put_off: set[str] = field(default_factory=set)

    async def commit_one_way(
        self, group: str, queue: MessageQueue, committable: Callable[[], int | None]
    ) -> int | None:
        assert "billing" == group
        if queue.broker in self.failing:
            raise self.failing[queue.broker]
        offset = None if queue.broker in self.put_off else committable()
        if offset:
            self.one_way.append((str(queue), offset))
        if self.stall is not None:
            await self.stall.wait()
        return offset

    async def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        assert "billing" == group
        await asyncio.sleep(0)
        if queue.broker in self.failing:
            raise self.failing[queue.broker]
        self.answered.append((str(queue), offset))


def table_of(*queues: MessageQueue) -> OffsetTable:
    table = OffsetTable()
    for queue in queues:
        table.begin(queue, 50, stored=50)
    return table


def nobody() -> list[PullLoop]:
    return []


def test_only_what_is_dirty_is_sent_each_second_and_once() -> None:
    async def story() -> list[tuple[str, int]]:
        brokers, table = Brokers(), table_of(QUEUE, OTHER)
        task = start(CommitLoop("billing", cast("Any", brokers), table, nobody).run())
        await asyncio.sleep(2.5)
        assert [] == brokers.one_way, "nothing when idle"
        table.advance(QUEUE, 60)
        await asyncio.sleep(5)
        table.advance(QUEUE, 61)
        table.advance(OTHER, 70)
        await asyncio.sleep(5)
        await end(task)
        assert [] == brokers.answered
        return brokers.one_way

    expected = [("orders@broker-a:3", 60), ("orders@broker-a:3", 61), ("orders@broker-b:0", 70)]
    assert expected == play(story)


def test_what_the_client_puts_off_is_told_as_soon_as_it_may_be() -> None:
    async def story() -> None:
        brokers, table = Brokers(put_off={QUEUE.broker}), table_of(QUEUE)
        task = start(CommitLoop("billing", cast("Any", brokers), table, nobody).run())
        table.advance(QUEUE, 60)
        await asyncio.sleep(1.35)
        brokers.put_off.clear()
        await asyncio.sleep(0.1)
        assert [("orders@broker-a:3", 60)] == brokers.one_way
        table.advance(QUEUE, 61)
        await asyncio.sleep(0.5)
        assert [("orders@broker-a:3", 60)] == brokers.one_way, "once a second again"
        await end(task)

    play(story)


def test_while_something_is_put_off_the_rest_is_not_told_again_more_often() -> None:
    """A broker that hangs leaves its first offset unanswered for as long; the others' are told again each 30 s."""

    async def story() -> list[tuple[str, int]]:
        brokers, table = Brokers(put_off={QUEUE.broker}), table_of(QUEUE, OTHER)
        pull = object.__new__(PullLoop)
        pull.flow, pull.queue = QueueFlow(OTHER, Budget(PLENTY), FlowLimits()), OTHER
        task = start(CommitLoop("billing", cast("Any", brokers), table, lambda: [pull]).run())
        table.advance(QUEUE, 60)
        await asyncio.sleep(29)
        assert [] == brokers.one_way
        await asyncio.sleep(32)
        await end(task)
        return brokers.one_way

    assert [("orders@broker-b:0", 50)] * 2 == play(story)


def test_an_offset_that_moved_inside_a_chunk_at_work_is_sent_too() -> None:
    """With one slow message a chunk takes long; what has ended before it need not be repeated after a crash."""

    async def story() -> list[tuple[str, int]]:
        brokers, table = Brokers(), table_of(QUEUE)
        flow = QueueFlow(QUEUE, Budget(PLENTY), FlowLimits())
        flow.positioned(50)
        chunk = flow.window.admit(messages_from(50, 10), 50, 60, 100)
        assert chunk is not None
        pull = object.__new__(PullLoop)
        pull.flow, pull.queue = flow, QUEUE
        unpositioned = object.__new__(PullLoop)
        unpositioned.flow, unpositioned.queue = QueueFlow(OTHER, Budget(PLENTY), FlowLimits()), OTHER
        task = start(CommitLoop("billing", cast("Any", brokers), table, lambda: [pull, unpositioned]).run())
        chunk.low = 4
        await asyncio.sleep(1.5)
        await end(task)
        return brokers.one_way

    assert [("orders@broker-a:3", 54)] == play(story)


def test_a_listener_is_told_once_of_each_committed_offset_also_of_those_that_rode_on_pulls() -> None:
    async def story() -> list[tuple[str, dict[MessageQueue, int]]]:
        heard: list[tuple[str, dict[MessageQueue, int]]] = []

        def hear(group: str, offsets: dict[MessageQueue, int]) -> None:
            heard.append((group, offsets))

        listeners = Listeners(lambda name: hear if name == "offsets_committed" else None)
        brokers, table = Brokers(), OffsetTable()
        task = start(CommitLoop("billing", cast("Any", brokers), table, nobody, listeners=listeners).run())
        popped = QUEUE._replace(number=-1)
        for queue in (QUEUE, OTHER, popped):
            table.begin(queue, 50, stored=50)
        await asyncio.sleep(2.5)
        assert [] == heard, "nothing is no news"
        table.advance(popped, 60)
        await asyncio.sleep(2.5)
        assert [] == heard, "what is counted of a popped queue is no offset"
        table.advance(QUEUE, 60)
        table.advance(OTHER, 70)
        table.mark_sent(OTHER, 70)  # on a pull
        await asyncio.sleep(5)
        table.advance(QUEUE, 61)
        await asyncio.sleep(5)
        await end(task)
        return heard

    assert [("billing", {OTHER: 70, QUEUE: 60}), ("billing", {QUEUE: 61})] == play(story)


def owning(*, state: QueueState = QueueState.FLOWING, offset: int = 50) -> PullLoop:
    flow = QueueFlow(QUEUE, Budget(PLENTY), FlowLimits())
    flow.positioned(offset)
    if state is QueueState.RETIRING:
        flow.revoke()
    pull = object.__new__(PullLoop)
    pull.flow, pull.queue = flow, QUEUE
    return pull


@pytest.mark.parametrize(
    ("state", "others_commit", "mutant", "said"),
    [
        (QueueState.FLOWING, True, None, 3),
        (QueueState.FLOWING, True, "an owner says its offset again", 0),
        (QueueState.RETIRING, True, None, 0),
        (QueueState.FLOWING, False, None, 0),
    ],
)
def test_an_owner_says_each_half_minute_what_a_former_one_may_have_moved_back(
    state: QueueState, others_commit: bool, mutant: str | None, said: int
) -> None:
    async def story() -> list[tuple[str, int]]:
        brokers, table = Brokers(), table_of(QUEUE)
        pull = owning(state=state)
        loop = CommitLoop("billing", cast("Any", brokers), table, lambda: [pull], others_commit=others_commit)
        task = start(loop.run())
        await asyncio.sleep(95)
        await end(task)
        return brokers.one_way

    with left_out(mutant):
        assert [("orders@broker-a:3", 50)] * said == play(story)


def test_a_broker_out_of_reach_is_named_once_and_holds_up_nobody_else() -> None:
    async def story() -> list[tuple[str, int]]:
        brokers, table = (
            Brokers(failing={"broker-a": BrokerUnreachable("broker-a gives no answer")}),
            table_of(QUEUE, OTHER),
        )
        task = start(CommitLoop("billing", cast("Any", brokers), table, nobody).run())
        table.advance(QUEUE, 60)
        table.advance(OTHER, 70)
        await asyncio.sleep(10.5)
        assert [("orders@broker-b:0", 70)] == brokers.one_way
        brokers.failing.clear()
        await asyncio.sleep(1)
        brokers.failing["broker-a"] = BrokerUnreachable("again")
        table.advance(QUEUE, 61)
        await asyncio.sleep(5)
        await end(task)
        return brokers.one_way

    sent, lines = play_logged(story)
    assert [("orders@broker-b:0", 70), ("orders@broker-a:3", 60)] == sent
    assert [
        ("commit failed", "orders@broker-a:3", 60, "broker-a gives no answer"),
        ("commit failed", "orders@broker-a:3", 61, "again"),
    ] == told(lines, "queue", "offset", "reason")


def test_a_queue_that_was_handed_over_meanwhile_is_not_committed_any_more() -> None:
    """Its offset was confirmed when it left; an older one sent after that would move the next owner back."""

    async def story() -> list[tuple[str, int]]:
        brokers, table = Brokers(stall=asyncio.Event()), table_of(QUEUE, OTHER)
        commits = CommitLoop("billing", cast("Any", brokers), table, nobody)
        task = start(commits.run())
        table.advance(QUEUE, 60)
        table.advance(OTHER, 70)
        await asyncio.sleep(1.5)
        assert [("orders@broker-a:3", 60)] == brokers.one_way, "the other one waits behind it"
        table.advance(OTHER, 80)
        assert await commits.flush(OTHER)
        table.forget(OTHER)
        assert brokers.stall is not None
        brokers.stall.set()
        await asyncio.sleep(5)
        await end(task)
        return brokers.one_way

    assert [("orders@broker-a:3", 60)] == play(story)


def test_a_flush_is_a_request_with_an_answer() -> None:
    async def story() -> None:
        brokers, table = Brokers(), table_of(QUEUE)
        commits = CommitLoop("billing", cast("Any", brokers), table, nobody)
        assert await commits.flush(QUEUE), "nothing to say is well said"
        assert [] == brokers.answered
        table.advance(QUEUE, 60)
        table.mark_sent(QUEUE, 60)
        assert await commits.flush(QUEUE), "a one-way message is no confirmation"
        assert await commits.flush(QUEUE)
        assert [("orders@broker-a:3", 60)] == brokers.answered
        assert [] == table.dirty()

    play(story)


@pytest.mark.parametrize(
    "error",
    [BrokerUnreachable("no answer"), Refused(1, "disk full", request="commit", peer="127.0.0.1:1")],
    ids=lambda error: type(error).__name__,
)
def test_a_flush_that_fails_says_so_and_leaves_the_offset_unconfirmed(error: FrameworkError) -> None:
    async def story() -> None:
        brokers, table = Brokers(failing={"broker-a": error}), table_of(QUEUE)
        commits = CommitLoop("billing", cast("Any", brokers), table, nobody)
        table.advance(QUEUE, 60)
        assert not await commits.flush(QUEUE)
        assert 60 == table.unconfirmed(QUEUE)

    _, lines = play_logged(story)
    assert [("flush failed", "orders@broker-a:3", 60, str(error))] == told(lines, "queue", "offset", "reason")
