"""LeaseLoop: takes, renews and gives back the broker's locks on an orderly group's queues.

One request a broker for all of its queues that are due; brokers do not wait for each other. What an answer means is
`core/order_lease.py`'s; what becomes of a queue whose lease came or went is the group's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

import structlog

from framework import marks
from framework.client.brokers import Brokers
from framework.core.order_lease import Asking, OrderLease
from framework.errors import AWAY, BrokerUnreachable, FrameworkError, is_said
from framework.model.queue import MessageQueue
from framework.net.task_tree import TaskTree
from framework.net.wakeup import Wakeup
from framework.ports import Clock

log = structlog.get_logger()


class LeaseLoop:
    """One per orderly group; the only writer of its leases."""

    def __init__(
        self,
        group: str,
        member: str,
        brokers: Brokers,
        clock: Clock,
        *,
        granted: Callable[[MessageQueue], None],
        lost: Callable[[MessageQueue], None],
        taken: Callable[[MessageQueue], None] = lambda _: None,
    ) -> None:
        """`taken`: told that another member has the lock, whether or not we had it."""
        self._group, self._member, self._brokers, self._clock = group, member, brokers, clock
        self._granted, self._lost, self._taken = granted, lost, taken
        self._leases: dict[MessageQueue, OrderLease] = {}
        self._asking: dict[MessageQueue, asyncio.Future[None]] = {}
        """Queues with a request under way; its end."""
        self._waiting_for: dict[MessageQueue, str] = {}
        """Why a lock is not had; logged on entering and on leaving."""
        self._bell = Wakeup()

    def claim(self, queue: MessageQueue) -> OrderLease:
        """Have the queue locked for us, as soon as nobody else holds it."""
        assert queue not in self._leases, f"{queue} is claimed already"
        lease = self._leases[queue] = OrderLease(self._clock.monotonic_ms())
        self._bell.ring()
        return lease

    async def release(self, queue: MessageQueue, *, unlock: bool = True) -> None:
        """Let the next owner have it. A request under way comes first: a broker may take two in either order.

        Without `unlock` the lock is left to run out, because somebody is still at work under it.
        """
        while (asking := self._asking.get(queue)) is not None:  # the next may have been sent before we woke
            await asyncio.shield(asking)
        lease = self._leases.pop(queue)
        self._waiting_for.pop(queue, None)
        if not unlock or not lease.may_be_held:
            return
        try:
            if marks.rarely("an unlock fails"):
                raise BrokerUnreachable("an unlock that failed")
            await marks.stretched("a lock is given back")
            await self._brokers.unlock(self._group, self._member, [queue])
        except FrameworkError as error:
            # It runs out by itself, a minute after its last renewal.
            told = log.debug if is_said(error) else log.warning
            told("unlock failed", group=self._group, queues=[str(queue)], reason=str(error))

    def connection_lost(self, address: str) -> None:
        """A broker keeps its locks in memory: what was connected may come back without them."""
        now_ms = self._clock.monotonic_ms()
        for queue, lease in self._leases.items():
            if lease.where == address and lease.unconfirmed(now_ms):
                self._lose(queue, f"the connection to {address} was lost", is_said=True)
        self._bell.ring()

    # The loop

    async def run(self) -> None:
        tree = TaskTree()
        try:
            while True:
                now_ms = self._clock.monotonic_ms()
                for queue, lease in self._leases.items():
                    if lease.expired(now_ms):
                        is_said = self._waiting_for.get(queue) == AWAY
                        self._lose(queue, "no renewal was confirmed in time", is_said=is_said)
                for broker, queues in self._due(now_ms).items():
                    tree.start(self._ask(queues, self._sent(queues)), name=f"lock {self._group} {broker}")
                until_ms = min((lease.next_ms() for lease in self._leases.values()), default=None)
                # Never in the past: an instant that has passed would not let anybody else run.
                await self._bell.wait(None if until_ms is None else (max(until_ms, now_ms) + 1) / 1000)
        finally:
            await tree.close()
            # A request that was cancelled before its first step has no end of its own.
            for queue, asking in self._asking.items():
                self._leases[queue].failed(self._clock.monotonic_ms())
                if not asking.done():
                    asking.set_result(None)
            self._asking.clear()

    def _due(self, now_ms: int) -> dict[str, list[MessageQueue]]:
        due: dict[str, list[MessageQueue]] = {}
        for queue, lease in sorted(self._leases.items()):
            if lease.is_due(now_ms):
                due.setdefault(queue.broker, []).append(queue)
        return due

    def _sent(self, queues: list[MessageQueue]) -> dict[MessageQueue, Asking]:
        """Note the sending, in the turn in which it was decided."""
        done = asyncio.get_running_loop().create_future()
        now_ms = self._clock.monotonic_ms()
        for queue in queues:
            self._asking[queue] = done
        return {queue: self._leases[queue].ask(now_ms, self._brokers.where(queue)) for queue in queues}

    async def _ask(self, queues: list[MessageQueue], askings: dict[MessageQueue, Asking]) -> None:
        done = self._asking[queues[0]]
        held: Collection[MessageQueue] | None = None
        try:
            if marks.rarely("a lock is not answered"):
                raise BrokerUnreachable("a question that failed")
            await marks.stretched("a lock is asked for")
            held = await self._brokers.lock(self._group, self._member, queues)
            await marks.stretched("a lock is answered")
        except FrameworkError as error:
            for queue in queues:
                self._complain(queue, AWAY if is_said(error) else str(error))
        finally:
            now_ms = self._clock.monotonic_ms()
            for queue in queues:
                self._answered(queue, askings[queue], held, now_ms)
                del self._asking[queue]
            done.set_result(None)
            self._bell.ring()

    def _answered(
        self, queue: MessageQueue, asking: Asking, held: Collection[MessageQueue] | None, now_ms: int
    ) -> None:
        lease = self._leases[queue]  # it is there: whoever releases waits for the answer
        if held is None:
            lease.failed(now_ms)
        elif queue in held:
            self._waiting_for.pop(queue, None)
            if lease.granted(asking, now_ms):
                log.info("queue locked", group=self._group, queue=str(queue))
                self._granted(queue)
        else:
            if lease.refused(asking, now_ms):
                self._lose(queue, "the broker gave the lock to another member")
            else:
                self._complain(queue, "another member holds the lock")
            self._taken(queue)

    def _lose(self, queue: MessageQueue, reason: str, *, is_said: bool = False) -> None:
        """`is_said`: its broker is away, which would be told of by each queue of each group."""
        marks.sometimes("a lease was lost")
        told = log.debug if is_said else log.warning
        told("lease lost", group=self._group, queue=str(queue), reason=reason)
        self._lost(queue)

    def _complain(self, queue: MessageQueue, reason: str) -> None:
        if self._waiting_for.get(queue) != reason:
            self._waiting_for[queue] = reason
            is_held = self._leases[queue].is_granted  # a renewal failed, and the lock is ours for a while yet
            told = log.debug if reason == AWAY or is_held else log.info
            told("queue not locked", group=self._group, queue=str(queue), reason=reason)

    def of(self, queue: MessageQueue) -> OrderLease | None:
        """The queue's lease, for pictures."""
        return self._leases.get(queue)

    def waits_because(self, queue: MessageQueue) -> str | None:
        """Why the queue's lock is not had."""
        return self._waiting_for.get(queue)

    def __repr__(self) -> str:
        held = sum(lease.is_granted for lease in self._leases.values())
        return f"<LeaseLoop {self._group}: {held} of {len(self._leases)} held>"
