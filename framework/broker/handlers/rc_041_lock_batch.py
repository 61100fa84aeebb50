"""LOCK_BATCH_MQ (41): take or renew locks on queues; answers those that the client holds now.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok
from framework.wire.bodies.group import LockBatch, LockedQueues


def handle(request: Request) -> Answer:
    batch = LockBatch.decode(request.command.body)
    node = request.node
    now_ms = node.world.clock.monotonic_ms()
    return ok(
        body=LockedQueues(queues=tuple(node.locks.lock(batch.group, batch.client_id, batch.queues, now_ms))).encode()
    )
