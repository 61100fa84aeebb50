"""Queue locks for orderly groups: who may handle a queue, for 60 seconds after he last said so.

Kept in memory, as RocketMQ keeps them; nobody else knows where they are kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from framework.model.queue import MessageQueue

# rocketmq.broker.rebalance.lockMaxLiveTime of every stock broker.
LOCK_LIFE_MS = 60_000


class Locks:
    """One table a logical broker; time is an argument, of a clock that only goes forward."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[MessageQueue, tuple[str, int]]] = {}

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int) -> list[MessageQueue]:
        """Take or renew; answers the queues that the client now holds."""
        locks = self._groups.setdefault(group, {})
        granted = []
        for queue in queues:
            owner, since = locks.get(queue, (client_id, now_ms))
            if owner == client_id or now_ms - since > LOCK_LIFE_MS:
                locks[queue] = (client_id, now_ms)
                granted.append(queue)
        return granted

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Let go of what the client holds; other clients' locks stay."""
        locks = self._groups.get(group, {})
        for queue in queues:
            if queue in locks and locks[queue][0] == client_id:
                del locks[queue]
        if not locks:
            self._groups.pop(group, None)

    def holder(self, group: str, queue: MessageQueue, now_ms: int) -> str | None:
        """The client that holds the queue now."""
        owner, since = self._groups.get(group, {}).get(queue, ("", now_ms - LOCK_LIFE_MS - 1))
        return owner if now_ms - since <= LOCK_LIFE_MS else None

    def is_any_alive(self, group: str, now_ms: int) -> bool:
        """Whether the group works in order just now: then plain sends to its retry topic become dead letters."""
        return any(now_ms - since <= LOCK_LIFE_MS for _, since in self._groups.get(group, {}).values())
