"""Queue locks for orderly groups: who may handle a queue, for 60 seconds after he last said so.

A lock's owner is kept on disk, where RocketMQ forgets all locks with the process. Its time is not: what is found at the
start counts as just renewed, so nobody else is given a queue before the old lock could have run out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import TypeAlias

from framework.broker.store.columns import LOCKS
from framework.broker.store.tables import SavedTable
from framework.model.queue import MessageQueue

# rocketmq.broker.rebalance.lockMaxLiveTime of every stock broker.
LOCK_LIFE_MS = 60_000
# A thousand topics of fifty queues; names of queues come from clients, who may make them up.
LOCKS_MAX = 50_000


class QueueLocks:
    """One table a logical broker; time is an argument, of a clock that only goes forward.

    Without a table nothing outlives the process, as in RocketMQ.
    """

    def __init__(self, table: LockTable | None = None, *, now_ms: int = 0) -> None:
        self._groups: dict[str, dict[MessageQueue, tuple[str, int]]] = {}
        self._table = table
        self._count = 0
        self.life_ms = LOCK_LIFE_MS
        if table is not None:
            for (group, queue), client_id in table.items():
                self._put(self._groups.setdefault(group, {}), queue, client_id, now_ms)

    def __len__(self) -> int:
        return self._count

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int) -> list[MessageQueue]:
        """Take or renew; answers the queues that the client now holds."""
        locks = self._groups.setdefault(group, {})
        granted = []
        for queue in queues:
            owner, since = locks.get(queue, (client_id, now_ms))
            is_room = queue in locks or self._count < LOCKS_MAX
            if is_room and (owner == client_id or now_ms - since > self.life_ms):
                self._put(locks, queue, client_id, now_ms)
                granted.append(queue)
                if self._table is not None and self._table.get((group, queue)) != client_id:
                    self._table.put((group, queue), client_id)
        if not locks:
            del self._groups[group]
        return granted

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Let go of what the client holds; other clients' locks stay."""
        locks = self._groups.get(group, {})
        for queue in queues:
            if queue in locks and locks[queue][0] == client_id:
                self._drop(group, queue)

    def forget_expired(self, now_ms: int) -> None:
        """Drop what ran out, so that the next start does not take it for new."""
        for group, locks in list(self._groups.items()):
            for queue in [queue for queue, (_, since) in locks.items() if now_ms - since > self.life_ms]:
                self._drop(group, queue)

    @property
    def is_saved(self) -> bool:
        """Whether a crash now would forget nothing."""
        return self._table is None or self._table.is_saved

    def holder(self, group: str, queue: MessageQueue, now_ms: int) -> str | None:
        """The client that holds the queue now."""
        owner, since = self._groups.get(group, {}).get(queue, ("", now_ms - self.life_ms - 1))
        return owner if now_ms - since <= self.life_ms else None

    def is_any_alive(self, group: str, now_ms: int) -> bool:
        """Whether the group works in order just now: then plain sends to its retry topic become dead letters."""
        return any(now_ms - since <= self.life_ms for _, since in self._groups.get(group, {}).values())

    def _put(
        self, locks: dict[MessageQueue, tuple[str, int]], queue: MessageQueue, client_id: str, now_ms: int
    ) -> None:
        self._count += queue not in locks
        locks[queue] = (client_id, now_ms)

    def _drop(self, group: str, queue: MessageQueue) -> None:
        locks = self._groups[group]
        del locks[queue]
        self._count -= 1
        if self._table is not None:
            self._table.drop((group, queue))
        if not locks:
            del self._groups[group]


LockTable: TypeAlias = SavedTable[tuple[str, MessageQueue], str]


def load_locks(connection: sqlite3.Connection, broker: str) -> LockTable:
    """Client ids by group and queue, as they were saved last.."""
    table: LockTable = SavedTable(
        LOCKS, (broker,), to_row=lambda client_id: (client_id,),
        to_key=lambda key: (key[0], key[1].topic, key[1].broker, key[1].number),
    )  # fmt: skip
    for group, topic, queue_broker, number, client_id in table.rows(connection):
        table.load((group, MessageQueue(topic, queue_broker, number)), client_id)
    return table
