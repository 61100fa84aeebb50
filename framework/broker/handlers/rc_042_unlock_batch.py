"""UNLOCK_BATCH_MQ (42): let go of queues; those of other clients stay locked.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok
from framework.wire.bodies.group import LockBatch


def handle(request: Request) -> Answer:
    batch = LockBatch.decode(request.command.body)
    node = request.node
    node.locks.unlock(batch.group, batch.client_id, batch.queues)
    if not node.locks.is_saved:
        node.save_soon()
    return ok()
