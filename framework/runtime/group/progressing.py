"""Progressing: one group's store of what has ended above a gap, with all that it needs. Wiring only."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import structlog

from framework import marks
from framework.client.cluster import Cluster
from framework.client.kept_progress import KeptProgress
from framework.client.producer import Producer
from framework.core import limits
from framework.core.ranges import proof_of
from framework.errors import FrameworkError, Refused, StoreError, shorten
from framework.hooks.failures import plugin_failure_awaited
from framework.model.contracts import KeepsProgress, Kept
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.model.reserved import progress_topic
from framework.net.task_tree import TaskTree
from framework.ports import Clock, Files, World
from framework.runtime.group.parts import GroupParts
from framework.runtime.group.plan import Keeping
from framework.runtime.plans.stores import opened_store
from framework.services.offsets.handover import GroupProgress
from framework.services.offsets.progress import QueueProgress
from framework.services.offsets.progress_use import NamedStore, StoreUse
from framework.services.queue.pull import PullLoop
from framework.services.rebalance import RebalanceLoop
from framework.services.supervise import supervise
from framework.wire.codes import ResponseCode

T = TypeVar("T")
log = structlog.get_logger()

LOCAL = "local"
MAY_NOT_BE_MADE = (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.NO_PERMISSION)


class Progressing:
    """One per group that keeps its progress."""

    def __init__(self, parts: GroupParts, keeping: Keeping, rebalance: RebalanceLoop) -> None:
        self._parts, self._rebalance = parts, rebalance
        group, cluster, world = parts.plan.name, parts.cluster, parts.world
        means = _Means(group, f"{keeping.folder}/{group}", cluster, world, keeping.key)
        here = f"consumers.{group}.progress"
        store = opened_store(keeping.store.name, partial(keeping.store.open, means), here)
        self._instead: _OrInstead | None = None
        if keeping.instead is not None:
            store = self._instead = _OrInstead(
                group, store, opened_store(keeping.instead.name, partial(keeping.instead.open, means), here),
                is_expected=keeping.is_auto,
            )  # fmt: skip
        self._shared = GroupProgress(
            group, AskedStore(group, keeping.store.name, store, world.clock),
            self._use_of(group, keeping, self._instead) if self._instead and keeping.is_auto else NamedStore(),
            cluster.brokers, parts.offsets, world.clock, cluster.brokers.query_offset, parts.member,
            lambda: rebalance.members, keeping.has_ranges, self._tells_epoch,
        )  # fmt: skip
        self._flush = partial(flush_each_second, group, parts.owned.values, parts.tree)

    def start(self) -> None:
        if self._shared.has_ranges:
            name, parts = f"progress {self._shared.group}", self._parts
            supervise(parts.tree, name, self._flush, parts.world.chance)

    def of(self, queue: MessageQueue) -> QueueProgress:
        """For one acquisition of a queue."""
        return QueueProgress(self._shared, queue, self._parts.cluster.fences.of(self._shared.group, queue))

    @property
    def awaited(self) -> int:
        """How often a queue had to wait for its previous owner."""
        return self._shared.awaited

    def _tells_epoch(self) -> bool:
        """What each machine counts for itself says nothing to the others; nor does what not every owner has."""
        return not self._shared.use.is_auto and (self._instead is None or not self._instead.is_used)

    def _use_of(self, group: str, keeping: Keeping, either: _OrInstead) -> StoreUse:
        """`auto`: the store is left alone until there is a use for it."""
        topic, routes = progress_topic(group), self._parts.cluster.routes

        def store() -> tuple[str, str]:
            return (LOCAL if either.is_used else keeping.store.name), either.refusal

        return StoreUse(group, lambda: routes.knows(topic), either.has_file, lambda: self._rebalance.changes, store)


class _Means:
    """As `model.contracts.ProgressMeans` says."""

    def __init__(self, group: str, folder: str, cluster: Cluster, world: World, key: bytes = b"") -> None:
        self.group, self.folder, self._key = group, folder, key
        self.files: Files = world.files
        self._cluster, self._world = cluster, world
        self._producer: Producer | None = None

    async def in_thread(self, job: Callable[[], T]) -> T:
        return await self._world.workers.run(job)

    async def queues(self, topic: str) -> Sequence[MessageQueue]:
        return await self._cluster.routes.queues(topic)

    async def end(self, queue: MessageQueue) -> int:
        return await self._cluster.brokers.max_offset(queue)

    async def peek(self, queue: MessageQueue, offset: int, count: int) -> Sequence[Message]:
        return await self._cluster.brokers.peek(self.group, queue, offset, count)

    def proof(self, content: bytes) -> str:
        return proof_of(self._key, self.group.encode(), content) if self._key else ""

    def at_broker(self) -> KeepsProgress:
        cluster = self._cluster
        return KeptProgress(self.group, cluster.calls, cluster.fences)

    async def send(self, message: Message, queue: MessageQueue) -> int:
        if self._producer is None:
            # Names are the cluster's already, and its records are no messages of the application's.
            self._producer = Producer(cluster=self._cluster, namespace="", hooks=False)
        return (await self._producer.send(message, queue=queue)).queue_offset


class _OrInstead:
    """A store at the brokers, or another one where theirs may not be made: said once, and only before it has worked."""

    def __init__(self, group: str, store: KeepsProgress, instead: KeepsProgress, *, is_expected: bool = False) -> None:
        """`is_expected`: nobody has named the one at the brokers, and who has chosen it says which one it is."""
        self._group, self._store, self._instead, self._is_expected = group, store, instead, is_expected
        self._has_worked = self.is_used = False
        """Whether it has ever worked, and whether the other one has taken its place."""
        self.refusal = ""
        """Why the other one has."""

    async def read(self, queue: MessageQueue) -> Kept | None:
        store, had_worked = self._store, self._has_worked
        try:
            found = await store.read(queue)
        except Refused as error:
            self._give_up(store, error)
            return await self._store.read(queue)
        self._has_worked |= found is not None
        # Where it had never worked, a process before this one may have had to do without it, too. What another queue
        # has brought about meanwhile says nothing of this one's record.
        return found if had_worked or found is not None else await self._read_instead(queue)

    async def take(self, queue: MessageQueue, content: bytes) -> int:
        store = self._store
        try:
            epoch = await store.take(queue, content)
        except Refused as error:
            self._give_up(store, error)
            epoch = await self._store.take(queue, content)
        self._has_worked = True
        return epoch

    async def write(self, queue: MessageQueue, epoch: int, content: bytes) -> None:
        await self._store.write(queue, epoch, content)

    def _give_up(self, store: KeepsProgress, error: Refused) -> None:
        if store is not self._store:
            return  # another queue was refused meanwhile
        if self._has_worked or error.code not in MAY_NOT_BE_MADE:
            raise error
        self._store, self._has_worked, self.is_used, self.refusal = self._instead, True, True, str(error)
        if not self._is_expected:
            log.warning("progress kept locally", group=self._group, reason=str(error))

    async def has_file(self, queue: MessageQueue) -> bool:
        return await self._read_instead(queue) is not None

    async def _read_instead(self, queue: MessageQueue) -> Kept | None:
        """What the other store has; a record that cannot be read says nothing, and is not believed later either."""
        try:
            return await self._instead.read(queue)
        except StoreError:
            return None


async def flush_each_second(group: str, owned: Callable[[], Iterable[PullLoop]], tree: TaskTree) -> None:
    """Until cancelled; one per group with a store."""
    while True:
        await asyncio.sleep(limits.FLUSH_MS / 1000)
        flushes = [
            tree.start(_flush(pull), name=f"progress {group}")
            for pull in owned()
            if (pull.flow.window.span and not pull.flow.window.is_empty) or pull.progress.fence.is_refused
        ]
        for task in flushes:  # side by side: a broker that does not answer holds up its own queues alone
            await task


async def _flush(pull: PullLoop) -> None:
    """Of the window that is there when the task begins, not when it was started."""
    await pull.progress.flush(pull.flow.window, pull.bell)


PATIENCE_SECONDS = 30.0  # as for a pull; what is kept at brokers tries each request for less
SLOW_SECONDS = 1.0  # a record is due each second
QUIET_SECONDS = 60.0


class AskedStore:
    """Has a store's three calls, with a time limit, so that no store can block a queue unnoticed.

    A store comes from a plugin. One that takes longer than a second is logged, once until it has been quick for a
    minute. One that never answers, or raises a foreign exception, has failed, and its group does what it does of any
    failure. Which failure is which is the store's own word, where it is one of ours.
    """

    def __init__(self, group: str, name: str, store: KeepsProgress, clock: Clock) -> None:
        self._group, self._name, self._store, self._clock = group, name, store, clock
        self._last_slow = float("-inf")

    async def read(self, queue: MessageQueue) -> Kept | None:
        return await self._asked(queue, self._store.read, queue)

    async def take(self, queue: MessageQueue, content: bytes) -> int:
        return await self._asked(queue, self._store.take, queue, content)

    async def write(self, queue: MessageQueue, epoch: int, content: bytes) -> None:
        await self._asked(queue, self._store.write, queue, epoch, content)

    async def _asked(self, queue: MessageQueue, ask: Callable[..., Awaitable[T]], *given: object) -> T:
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS) as patience:
                if marks.rarely("a store of progress fails"):
                    raise StoreError(f"progress of {queue}: a store that failed")
                await marks.stretched("a store of progress is asked")
                answer = await ask(*given)
                await marks.stretched("a store of progress has answered")
        except FrameworkError:
            raise
        except BaseException as error:  # border: a plugin's
            plugin_failure_awaited(error)
            if patience.expired():
                raise FrameworkError(f"progress store {self._name}: no answer in {PATIENCE_SECONDS:g} s") from error
            raise FrameworkError(
                f"progress store {self._name}: {type(error).__name__}: {shorten(str(error))}"
            ) from error
        now = self._clock.monotonic()
        if now - began > SLOW_SECONDS:
            before, self._last_slow = self._last_slow, now
            if now - before > QUIET_SECONDS:
                log.warning(
                    "progress store slow",
                    group=self._group, queue=str(queue), store=self._name, elapsed_ms=round((now - began) * 1000),
                )  # fmt: skip
        return answer

    def __repr__(self) -> str:
        return f"<AskedStore {self._name} of {self._group}>"
