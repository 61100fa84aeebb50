"""LOCK_BATCH_MQ (41): take or renew locks on queues; answers those that the client holds now.

Differences: the owner of a queue is kept over a restart, and for a minute after it no other client gets the queue,
where RocketMQ forgets all locks. A new lock is answered when it is on disk.
"""

from __future__ import annotations

from framework.broker.members import check_name
from framework.broker.request import Answer, Request, ok, when_saved
from framework.wire.bodies.group import LockBatch, LockedQueues


def handle(request: Request) -> Answer:
    batch = LockBatch.decode(request.command.body)
    for what, name in (("group", batch.group), ("client id", batch.client_id)):
        check_name(what, name)
    for queue in batch.queues:
        check_name("topic", queue.topic)
        check_name("broker", queue.broker)
    node = request.node
    now_ms = node.world.clock.monotonic_ms()
    granted = node.locks.lock(batch.group, batch.client_id, batch.queues, now_ms)
    node.watch_locks()
    answer = ok(body=LockedQueues(queues=tuple(granted)).encode())
    return answer if node.locks.is_saved else when_saved(answer)
