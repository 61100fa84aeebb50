"""A scene for tests of orderly services: a group's pool, with its broker, reports and leases played."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from framework.core import limits
from framework.core.budget import Budget
from framework.core.chunk import Chunk
from framework.core.offsets import OffsetTable
from framework.core.order_lease import OrderLease
from framework.core.queue_flow import QueueFlow
from framework.core.window import FlowLimits
from framework.declare import consumer
from framework.errors import BrokerUnreachable
from framework.model.death_reason import DeathReason
from framework.model.message import Message
from framework.model.outcome import Outcome
from framework.model.queue import MessageQueue
from framework.net.task_tree import TaskTree
from framework.services.call.batch_calls import batching_for
from framework.services.call.deliver import DeliveryHooks, Rules
from framework.services.orderly.desk import Desk, InOrder
from framework.services.orderly.ends import OrderlyOutcomes
from framework.services.orderly.pool import Orderly
from framework.services.pool.run import MessageCounts
from framework.services.queue.position import StartingPoint
from framework.services.queue.pull import PullLoop
from framework.services.recurring import Recurring
from tests.services.parts import PLENTY, EvenChance, LoopClock, Plan

Q1, Q2, Q3 = (MessageQueue("stock", "broker-a", number) for number in (1, 2, 3))


class Nothing:
    """Pulls that nobody makes here."""

    async def pull(self, offset: int, committable: Callable[[], int], *, alone: bool = False) -> Any:
        raise AssertionError("nobody pulls here")


class InlineWorkers:
    """Jobs run at once, each counted."""

    def __init__(self) -> None:
        self.ran = 0

    def submit(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self.ran += 1
        done(job(), None)

    def run(self, job: Callable[[], Any]) -> Any:
        raise AssertionError("what runs handlers submits them")

    def call_soon(self, callback: Callable[[], None]) -> None:
        raise AssertionError("no thread is here")


class Scene:
    """One orderly group; it is its broker, its reports and its group's side as well."""

    def __init__(
        self,
        call: Callable[[Any], Any],
        *,
        size: int = 4,
        is_async: bool = True,
        commits_by_hand: bool = False,
        key_of: Callable[[Message], str] | None = None,
        batch: int = 0,
        linger_ms: int = 0,
        hooks: DeliveryHooks = DeliveryHooks(),  # noqa: B008 - frozen
        flow_limits: FlowLimits = FlowLimits(),  # noqa: B008 - frozen
        max_retries: int = limits.MAX_RETRIES_IN_ORDER,
        stuck_after_ms: int = 900_000,
        workers: InlineWorkers | None = None,
        clock: LoopClock | None = None,
    ) -> None:
        self.clock, self.workers = clock or LoopClock(), workers or InlineWorkers()
        batching = None
        if batch:
            spec = consumer("stock", "inventory", orderly=True, batch=batch, linger=linger_ms / 1000)(call).spec
            batching = batching_for(spec, hooks, self.clock, Rules())
        self.call, self.how = call, InOrder(is_async, commits_by_hand, key_of, batching)
        self.flow_limits = flow_limits
        self.counts, self.offsets, self.plan = MessageCounts(), OffsetTable(), Plan("inventory")
        self.events: list[tuple[str, int, int]] = []
        self.late = 0
        self.buried: list[int] = []
        self.said: list[DeathReason | None] = []
        """Why, of each that was buried."""
        self.lines = Recurring(self.clock)
        self.is_broker_down = False
        self.tree = TaskTree(lambda name, error: pytest.fail(f"{name}: {error!r}"))
        self.pulls: dict[MessageQueue, PullLoop] = {}
        self.leases: dict[MessageQueue, OrderLease] = {}
        ends = OrderlyOutcomes(
            self,
            max_retries,
            stuck_after_ms=stuck_after_ms,
            brokers=cast("Any", self),
            reports=self,
            chance=EvenChance(),
            ended=lambda *_: None,
        )
        self.orderly = Orderly(
            "inventory", size, ends, stuck_after_ms=stuck_after_ms, clock=self.clock, workers=self.workers,
            tree=self.tree,
        )  # fmt: skip

    def take(self, queue: MessageQueue = Q1) -> PullLoop:
        async def find_start() -> StartingPoint:
            raise AssertionError("nobody positions here")

        flow = QueueFlow(queue, Budget(PLENTY), self.flow_limits, needs_lease=True)
        pull = PullLoop(
            flow, pulls=Nothing(), pool=self.orderly, call=self.call, not_success=self.not_success,
            find_start=find_start, group=self,
        )  # fmt: skip
        flow.run = pull
        self.pulls[queue] = pull
        lease = self.leases[queue] = OrderLease(self.clock.monotonic_ms())
        self.orderly.take(pull, lease, self.how)
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

    def desk(self, queue: MessageQueue = Q1) -> Desk:
        """The queue's desk, to look at."""
        return self.orderly._desks[queue]

    def committable(self, queue: MessageQueue = Q1) -> int:
        return self.pulls[queue].flow.window.settle()

    # The broker

    async def dead_letter(self, message: Message, group: str, why: DeathReason | None = None) -> None:
        await asyncio.sleep(0.01)
        if self.is_broker_down:
            raise BrokerUnreachable("broker-a: gone")
        self.buried.append(message.queue_offset)
        self.said.append(why)

    # The reports

    def death_reason(self, reason: str, error: str, line: str = "") -> DeathReason:
        return DeathReason(reason, error, self.clock.now_ms(), "me", line)

    def blocked(self, group: str, message: Message, queue: str, reason: str, named: Mapping[str, Any]) -> None:
        self.lines.say(
            "info", "queue blocked", (), group=group, queue=queue, offset=message.queue_offset, reason=reason, **named
        )

    def ended(
        self, event: str, group: str, message: Message, outcome: Outcome, elapsed_ms: float, *, reason: str = "",
        error: str = "",
    ) -> None:  # fmt: skip
        self.events.append((event, message.queue_offset, message.attempt))

    def failed(self, group: str, message: Message, error: Exception) -> None:
        self.events.append((f"{error}", message.queue_offset, message.attempt))

    # The group's side

    def left(self, queue: PullLoop, ended: int, *, is_late: bool = False) -> None:
        if is_late:
            self.late += ended
        else:
            self.counts.handled += ended

    def not_success(self, queue: PullLoop, chunk: Chunk, index: int, result: object, started: float) -> None:
        raise AssertionError("the pool decides itself here")

    def not_a_member(self, queue: MessageQueue) -> None:
        raise AssertionError("nobody pulls here")


def now() -> float:
    return asyncio.get_running_loop().time()
