"""The consuming half of the client, fed from memory: each pull is answered by the same bytes after a turn of the loop.

Everything behind the answer is real: decoding, the pull loop, its flow, the window, the pool and the handler's call.
"""

from __future__ import annotations

import asyncio
import functools
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from framework import Message, Retry, consumer
from framework.core.budget import Budget
from framework.core.chunk import Chunk
from framework.core.offsets import OffsetTable
from framework.core.order_lease import OrderLease
from framework.core.queue_flow import QueueFlow
from framework.core.window import FlowLimits
from framework.declare import ConsumerSpec
from framework.hooks import NothingFor, hookimpl
from framework.hooks.host import PluginHost
from framework.hooks.listeners import NO_LISTENERS, Listeners
from framework.model.delivery import Delivery
from framework.model.outcome import Outcome
from framework.model.pulled import Found, PullResult
from framework.model.queue import MessageQueue
from framework.net.real_clock import RealClock
from framework.net.real_world import RealWorkers
from framework.net.task_tree import TaskTree
from framework.ports import Clock, Workers
from framework.services.call.batch_calls import Batching, batching_for
from framework.services.call.deliver import DeliveryHooks, Rules, call_for
from framework.services.orderly.desk import InOrder
from framework.services.orderly.ends import OrderlyOutcomes
from framework.services.orderly.pool import Orderly
from framework.services.pool.batches import BatchPool
from framework.services.pool.run import MessageCounts
from framework.services.pool.tasks import WorkerPool
from framework.services.pool.threads import ThreadPool
from framework.services.queue.position import StartingPoint
from framework.services.queue.pull import PullLoop
from framework.wire.stored import Record, decode, encode_record

TOPIC, GROUP = "benchmark", "cost"
CONCURRENCY = 20
QUEUES = 8
PROPERTIES = {
    "UNIQ_KEY": "0A00000100002A9F" * 2, "TAGS": "TagA", "CLUSTER": "DefaultCluster", "MSG_REGION": "DefaultRegion",
    "TRACE_ON": "true",
}  # fmt: skip
QUEUE_OFFSET_AT = 20  # in a stored record
PLENTY = 1 << 40


class Order(BaseModel):
    number: int
    customer: str
    amount: float


BODY = b'{"number": 17, "customer": "%s", "amount": 12.5}' % (b"x" * 52)  # 100 bytes of JSON


class Done(Exception):
    """As many messages were handled as were asked for."""


@dataclass
class Plan:
    name: str = GROUP
    listeners: Listeners = NO_LISTENERS

    def judged(self, message: Message, result: object) -> object:
        raise AssertionError("every body can be read")


@dataclass
class Side:
    """The group: it counts, and notes the processor time each `step` messages."""

    clock: Clock
    most: int
    counts: MessageCounts = field(default_factory=MessageCounts)
    offsets: OffsetTable = field(default_factory=OffsetTable)
    plan: Plan = field(default_factory=Plan)
    on_step: Callable[[], None] = lambda: None
    step: int = PLENTY
    finished: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.next = self.step

    def left(self, queue: PullLoop, ended: int, *, is_late: bool = False) -> None:
        handled = self.counts.handled = self.counts.handled + ended
        if handled >= self.next:
            self.next += self.step
            self.on_step()
        if handled >= self.most:
            self.finished.set()

    def not_success(self, queue: PullLoop, chunk: Chunk, index: int, result: object, started: float) -> None:
        raise AssertionError(f"a handler that does nothing ended with {result!r}")

    def not_a_member(self, queue: MessageQueue) -> None:
        raise AssertionError("nobody refuses a pull")


class Pulls:
    """Answers each pull with as many messages, from the same bytes: decoding moves their offsets."""

    def __init__(self, queue: MessageQueue, pull: int) -> None:
        one = encode_record(Record(topic=TOPIC, body=BODY, properties=PROPERTIES, born_ms=1_700_000_000_000))
        body = bytearray(one * pull)
        for index in range(pull):
            struct.pack_into(">q", body, QUEUE_OFFSET_AT + index * len(one), index)
        self._queue, self._count, self._body = queue, pull, bytes(body)

    async def pull(self, offset: int, committable: Callable[[], int], *, alone: bool = False) -> PullResult:
        committable()
        await asyncio.sleep(0)
        messages = decode(self._body, self._queue, offset_delta=offset)
        return Found(messages, len(self._body), offset + self._count, 0, PLENTY)


class Standing(RealClock):
    """Time stands still, so that a slow machine has nobody act on what took long. A look is a call of C's, as ever."""

    def __init__(self) -> None:
        self.monotonic, self.monotonic_ms = (1_000.0).conjugate, (1_000_000).conjugate  # type: ignore[method-assign]


class OnTheLoop:
    """Workers without threads: a job is the loop's next callback, so that its calls can be counted, in one order."""

    def submit(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        asyncio.get_running_loop().call_soon(lambda: done(job(), None))

    def run(self, job: Callable[[], Any]) -> Awaitable[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.submit(job, lambda result, _: future.set_result(result))
        return future

    def call_soon(self, callback: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(callback)


class Listener:
    """A plugin with both hooks, as most are written."""

    @hookimpl
    def before_consume(self, delivery: Delivery) -> None: ...

    @hookimpl
    def after_consume(self, delivery: Delivery, outcome: Outcome, elapsed_ms: float) -> None: ...


class Surrounding:
    """A plugin that has nothing to put around messages, and is asked for each."""

    @hookimpl
    def around_consume(self, delivery: Delivery) -> None: ...


class Sampling:
    """A plugin that wants few of them, as where one trace in a hundred is kept."""

    @hookimpl
    def around_consume(self, delivery: Delivery) -> NothingFor:
        return NothingFor(100)


async def on_a_task(message: Message) -> None: ...


def on_a_thread(message: Message) -> None: ...


async def batch(messages: list[Message]) -> None: ...


def batch_on_a_thread(messages: list[Message]) -> None: ...


async def batch_typed(orders: list[Order]) -> None: ...


async def typed(order: Order) -> None: ...


BATCH = 32
CASES: dict[str, ConsumerSpec] = {
    "async": consumer(TOPIC, GROUP)(on_a_task).spec,
    "typed": consumer(TOPIC, GROUP)(typed).spec,
    "full": consumer(TOPIC, GROUP, retry=Retry(max=3))(typed).spec,
    "around": consumer(TOPIC, GROUP)(on_a_task).spec,
    "sampled": consumer(TOPIC, GROUP)(on_a_task).spec,
    "thread": consumer(TOPIC, GROUP)(on_a_thread).spec,
    "batch": consumer(TOPIC, GROUP, batch=BATCH)(batch).spec,
    "batch-typed": consumer(TOPIC, GROUP, batch=BATCH)(batch_typed).spec,
    "batch-thread": consumer(TOPIC, GROUP, batch=BATCH)(batch_on_a_thread).spec,
    "orderly": consumer(TOPIC, GROUP, orderly=True)(on_a_task).spec,
    "orderly-batch": consumer(TOPIC, GROUP, orderly=True, batch=BATCH)(batch).spec,
}
PLUGINS: dict[str, tuple[type, ...]] = {"full": (Listener,) * 3, "around": (Surrounding,), "sampled": (Sampling,)}
"""None where nothing is said."""


class Engine:
    """Eight queues of one group, consumed until so many messages were handled."""

    def __init__(self, case: str, *, most: int, pull: int = 32, step: int = PLENTY, is_counted: bool = False) -> None:
        self._spec, self._pull, self._plugins = CASES[case], pull, PLUGINS.get(case, ())
        self.clock: Clock = Standing() if is_counted else RealClock()
        self.workers: Workers = OnTheLoop() if is_counted else RealWorkers()
        self.tree = TaskTree()
        self.side = Side(self.clock, most, step=step)
        self.tasks: list[asyncio.Task[Any]] = []

    async def run(self) -> int:
        """How many were handled: those that this turn of the loop had begun as well."""
        spec, hooks, rules = self._spec, self._hooks(), Rules()
        batching = batching_for(spec, hooks, self.clock, rules) if spec.batch else None
        call: Callable[[Message], Any] = _nobody if batching else call_for(spec, hooks, self.clock, rules)
        if spec.orderly:
            self._in_order(call, batching)
        else:
            pool = self._pool(batching)
            for queue in _queues():
                self._own(queue, pool, call)
        await self.side.finished.wait()
        await self.tree.close()
        return self.side.counts.handled

    def _hooks(self) -> DeliveryHooks:
        if not self._plugins:
            return DeliveryHooks()
        calls = _loaded(self._plugins).calls
        calls.now = self.clock.monotonic
        return DeliveryHooks(calls.before, calls.after, calls.around)

    def _pool(self, batching: Batching | None) -> Any:
        if batching is not None:
            return BatchPool(GROUP, CONCURRENCY, batching, clock=self.clock, workers=self.workers, tree=self.tree)
        if not self._spec.is_async:
            return ThreadPool(CONCURRENCY, self.clock, self.workers)
        pool = WorkerPool(CONCURRENCY, self.clock)
        for slot in pool.slots:
            self.tree.start(pool.work(slot), name="worker")
        return pool

    def _in_order(self, call: Callable[[Message], Any], batching: Batching | None) -> None:
        nobody: Any = None  # nothing fails
        ends = OrderlyOutcomes(
            self.side, 16, stuck_after_ms=PLENTY, brokers=nobody, reports=nobody, chance=nobody, ended=nobody
        )
        pool = Orderly(
            GROUP, CONCURRENCY, ends, stuck_after_ms=900_000, clock=self.clock, workers=self.workers, tree=self.tree
        )
        for queue in _queues():
            pull = self._own(queue, pool, call, needs_lease=True)
            lease = OrderLease(self.clock.monotonic_ms())
            lease.until_ms = PLENTY
            pool.take(pull, lease, InOrder(self._spec.is_async, batching=batching))
            pull.flow.lease_granted()

    def _own(
        self, queue: MessageQueue, pool: Any, call: Callable[[Message], Any], *, needs_lease: bool = False
    ) -> PullLoop:
        flow = QueueFlow(queue, Budget(PLENTY), FlowLimits(), needs_lease=needs_lease)
        pull = PullLoop(
            flow, pulls=Pulls(queue, self._pull), pool=pool, call=call, not_success=self.side.not_success,
            find_start=_at_the_beginning, group=self.side,
        )  # fmt: skip
        flow.run = pull
        self.tree.start(pull.run(), name="pull")
        return pull


@functools.cache  # what loading plugins costs is no message's
def _loaded(plugins: tuple[type, ...]) -> PluginHost:
    host = PluginHost(objects={f"p{number}": plugin() for number, plugin in enumerate(plugins)}, discover=list)
    host.calls.looks = 0  # as after its first calls
    return host


def _queues() -> list[MessageQueue]:
    return [MessageQueue(TOPIC, "broker-a", number) for number in range(QUEUES)]


async def _at_the_beginning() -> StartingPoint:
    return StartingPoint(0, "the beginning", stored=0)


def _nobody(message: Message) -> Awaitable[object]:
    raise AssertionError("a batch handler is called with batches")
