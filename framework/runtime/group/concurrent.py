"""Concurrent: how a group runs handlers that is not orderly, and what becomes of messages that fail.

Tasks run async handlers, threads plain ones, and each handler of batches has a pool of its own. Each of these runs as
many handlers at once as the group may.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import structlog

from framework.core.chunk import Chunk
from framework.core.expiry import Slot
from framework.model.outcome import Extend, Outcome
from framework.model.queue import MessageQueue
from framework.runtime.group.parts import GroupParts
from framework.runtime.group.plan import GroupPlan, Handling
from framework.runtime.group.popping import PopCopies
from framework.runtime.report.stacks import place_of
from framework.services.call.batch_calls import Batching
from framework.services.outcome.again import HeldMessages, RetryInPlace
from framework.services.outcome.outcomes import Decide, Outcomes
from framework.services.outcome.retry_sender import RetrySender, SendsBack
from framework.services.outcome.trials import HeldChunks, Trials
from framework.services.pool.batches import BatchPool
from framework.services.pool.expiry import Expiry, WatchedPool
from framework.services.pool.run import AtWork, at_work
from framework.services.pool.tasks import WorkerPool
from framework.services.pool.threads import ThreadPool
from framework.services.queue.pull import PullLoop
from framework.services.supervise import supervise

log = structlog.get_logger()

PLACES_MAX = 5  # where some of them hang says where all do


class Concurrent:
    """One per group that is not orderly; its counterpart is `Ordering`, with the same methods."""

    leases = None

    def __init__(self, parts: GroupParts, decide: Decide) -> None:
        plan, world, tree = parts.plan, parts.world, parts.tree
        self._parts, self._name, self._world, self._tree = parts, plan.name, world, tree
        self._size = plan.settings.concurrency
        self._has_tasks = self._is_started = False
        self._tasks = WorkerPool(self._size, world.clock, self._employ)
        self._threads = ThreadPool(self._size, world.clock, world.workers)
        self._batches: dict[Batching, BatchPool] = {}
        self._watched: list[WatchedPool] = [self._tasks, self._threads]
        """All of them; the expiry looks at what is in here."""
        self.handlings_changed()
        self._was_hanging = 0
        self._expiry = Expiry(
            plan.name, self._watched, world.clock, plan.expiry, plan.settings.timeout, self._looked, plan.listeners,
            parts.reports.lines,
        )  # fmt: skip
        copies: SendsBack = parts.cluster.retry_copies
        if plan.settings.delivery != "pull":
            copies = PopCopies(copies, lambda: [each.popped for each in parts.owned.values() if each.popped])
        self._retry_sender = RetrySender(plan.name, plan.max_retries, copies, tree, world.chance)
        self._retries = RetryInPlace(tree)
        self.trials = Trials(
            plan.name, plan.settings.breaker, HeldChunks(self.take_back), parts.owned, parts.taken_at_once,
            clock=world.clock, chance=world.chance, tree=tree,
        )  # fmt: skip
        self.not_success = Outcomes(
            plan.name, plan.max_retries, decide,
            counts=parts.counts, retry_sender=self._retry_sender, retries=self._retries,
            held=HeldMessages(plan.name, tree), reports=parts.reports, clock=world.clock, ended=self.trials.ended,
        ).not_success  # fmt: skip

    def start(self) -> None:
        self._is_started = True
        if self._has_tasks:
            self._employ(self._tasks.slots)
        supervise(self._tree, f"expiry {self._name}", self._expiry.run, self._world.chance)

    def adopt(self, plan: GroupPlan, size: int) -> None:
        """Run so many handlers at once from now on (none, where the group is paused), each within this plan's limit."""
        self._expiry.adopt(plan.expiry, plan.settings.timeout)
        self._size = size
        self._threads.resize(size)
        for pool in self._batches.values():
            pool.resize(size)
        if self._has_tasks:
            new = self._tasks.resize(size)
            if self._is_started:  # else the start employs them, and a place would have two workers
                self._employ(new)

    def take_back(self, pull: PullLoop) -> list[Chunk]:
        """Start no more of the queue's messages: those that nobody has started come back."""
        return self.of(self._parts.handlings[pull.queue.topic]).take_back(pull.flow.window)

    def of(self, handling: Handling) -> WorkerPool | ThreadPool | BatchPool:
        """The pool that runs this handler."""
        if handling.batching is not None:
            return self._batches[handling.batching]
        return self._tasks if handling.is_async else self._threads

    def handlings_changed(self) -> None:
        """Have a pool for each handling. Those that are gone keep theirs: what was begun may still end."""
        world, had_tasks = self._world, self._has_tasks
        for each in self._parts.handlings.values():
            if each.batching is None:
                self._has_tasks = self._has_tasks or each.is_async
            elif each.batching not in self._batches:
                pool = self._batches[each.batching] = BatchPool(
                    self._name, self._size, each.batching, clock=world.clock, workers=world.workers, tree=self._tree
                )
                self._watched.append(pool)
        if self._is_started and self._has_tasks and not had_tasks:
            self._employ(self._tasks.slots)
            self._employ(self._tasks.resize(self._size))  # who is one too many by now leaves at his first step

    def intervene(self, queue: MessageQueue, offset: int, answer: Extend | Outcome) -> str:
        """What an operator decides about a handler that runs; comes back with why nothing was done."""
        return self._expiry.intervene(queue, offset, answer)

    def own(self, pull: PullLoop, handling: Handling) -> None:
        """A queue is ours."""

    # A queue that is left

    def leaving(self, pull: PullLoop, *, is_handed_on: bool) -> None:
        """Nothing more is pulled. `is_handed_on`: another member is to have the queue."""
        self._retry_sender.hurry(pull.flow.window)

    def busy(self, pull: PullLoop, until: float = 0.0) -> int:
        """Handlers of the queue that run, and copies of its messages that are not durable yet."""
        return pull.running + self._retry_sender.pending_for(pull.flow.window)

    async def release(self, queue: MessageQueue) -> None:
        """Nobody waits for a lock."""
        for pool in self._batches.values():
            pool.left()

    # What holds messages up

    @property
    def pending(self) -> int:
        """Failed messages that wait for their copies, or to be retried in place."""
        return self._retry_sender.pending + self._retries.pending

    @property
    def retrying(self) -> int:
        """The same: what waits at a broker until its delay is over is not known here."""
        return self.pending

    @property
    def unsent(self) -> int:
        """Failed messages of which no broker keeps a copy yet, though each way was tried."""
        return self._retry_sender.stuck

    @property
    def hanging(self) -> int:
        """Places that are empty because handlers that were given up do not end; nothing starts in them."""
        return sum(pool.missing for pool in self._watched)

    def at_work(self) -> list[AtWork]:
        """The handlers that run, those that were given up included."""
        pools = tuple(self._watched)
        own = [each for pool in pools for each in at_work(tuple(pool.slots))]
        return own + [each for pool in pools for each in at_work(tuple(pool.fenced), given_up=True)]

    def blocked_because(self, pull: PullLoop) -> str | None:
        if hanging := self.hanging:
            return f"{hanging} places are empty: handlers that were given up do not end"
        stuck = self._retry_sender.stuck_because(pull.flow.window)
        return stuck or self._parts.cluster.retry_rooms.complaint(self._name, pull.queue.broker)

    def connection_made(self) -> None:
        """A broker is there (again): what could be sent nowhere is sent at once."""
        self._retry_sender.hurry()

    # Pools

    def _looked(self) -> None:
        """After each expiry, and while places are empty: say so on entering and on leaving that state."""
        hanging = self.hanging
        if hanging and not self._was_hanging:
            slots = [slot for pool in self._watched for slot in pool.fenced]
            log.error(
                "handlers hung",
                group=self._name, missing=hanging, hanging=len(slots),
                places=[place_of(slot.worker) for slot in slots[:PLACES_MAX]],
                remedy="`places` shows where they hang; handlers that return free their workers",
            )  # fmt: skip
        elif self._was_hanging and not hanging:
            log.info("handlers recovered", group=self._name)
        self._was_hanging = hanging

    def _employ(self, slots: Iterable[Slot]) -> None:
        for slot in slots:
            supervise(self._tree, f"worker {self._name}", partial(self._tasks.work, slot), self._world.chance)

    def __repr__(self) -> str:
        pools = [self._tasks, self._threads, *self._batches.values()]
        return f"<Concurrent {self._name}: {pools} {self._retry_sender}>"
