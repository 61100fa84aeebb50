"""Who works on which queue: shares of a topic's queues, and the locks of groups that work in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from framework.broker.answers import Answer, Refusal, ok, when_saved
from framework.broker.handlers.name_server import route_of
from framework.broker.members import BROADCASTING, check_name
from framework.broker.node import Node
from framework.broker.pops import ANY_QUEUE, MODES, POP, Mode
from framework.broker.request import Request
from framework.broker.store.topics import PERM_READ
from framework.errors import bare
from framework.model.queue import MessageQueue
from framework.model.reserved import RETRY_PREFIX
from framework.wire.bodies.group import (
    AssignmentQuery,
    Assignments,
    LockBatch,
    LockedQueues,
    QueueAssignment,
    RequestMode,
)
from framework.wire.codes import ResponseCode

Divide: TypeAlias = Callable[[Sequence[MessageQueue], int, int], Sequence[MessageQueue]]


def query_assignment(request: Request) -> Answer:
    """QUERY_ASSIGNMENT (400): a member's share of a topic's queues to pull, or the queues to pop, divided here; null
    where it is to keep what it has.

    Differences: a topic's queues are known at once, where RocketMQ's broker looks for a changed route every half
    minute. A group pulls where no mode was set (401), as there.
    """
    asked = AssignmentQuery.decode(request.command.body)
    mode = request.node.pops.modes.get(asked.group, asked.topic)
    share = _share(request.node, asked, mode)
    assignments = None if share is None else tuple(QueueAssignment(queue=queue, mode=mode.name) for queue in share)
    return ok(body=Assignments(assignments=assignments).encode())


def _share(node: Node, asked: AssignmentQuery, mode: Mode) -> Sequence[MessageQueue] | None:
    route = route_of(node.neighbours(), asked.topic)
    if route is None:
        return None
    queues = [
        MessageQueue(asked.topic, each.broker_name, number)
        for each in sorted(route.queues, key=lambda each: each.broker_name)
        if each.perm & PERM_READ
        for number in range(each.read_queue_nums)
    ]
    if asked.message_model == BROADCASTING:
        return queues
    members = sorted(node.members.client_ids(asked.group))
    divide = _STRATEGIES.get(asked.strategy)
    if not members or divide is None:
        return None
    if mode.name == POP:
        return _popped(queues, members, asked.client_id, mode.share_queues, divide)
    return divide(queues, members.index(asked.client_id), len(members)) if asked.client_id in members else []


def _popped(
    queues: Sequence[MessageQueue], members: Sequence[str], client_id: str, shared: int, divide: Divide
) -> Sequence[MessageQueue]:
    """What a member pops: any queue of each broker, or its own share and those of the next members."""
    if shared <= 0 or shared >= len(members) - 1:
        return list(dict.fromkeys(MessageQueue(each.topic, each.broker, ANY_QUEUE) for each in queues))
    if client_id not in members:
        return []
    index, count = members.index(client_id), len(members)
    if count > len(queues):
        return [queues[index % len(queues)]]
    found = [queue for i in range(shared + 1) for queue in divide(queues, (index + i) % count, count)]
    return list(dict.fromkeys(found))


def _averagely(queues: Sequence[MessageQueue], index: int, members: int) -> Sequence[MessageQueue]:
    """Neighbouring queues; the first members have one more where it does not come out even."""
    size, more = divmod(len(queues), members)
    start = index * size + min(index, more)
    return queues[start : start + size + (index < more)]


def _by_circle(queues: Sequence[MessageQueue], index: int, members: int) -> Sequence[MessageQueue]:
    return queues[index::members]


_STRATEGIES: dict[str, Divide] = {
    "AVG": _averagely,
    "AVG_BY_CIRCLE": _by_circle,
}


def set_request_mode(request: Request) -> Answer:
    """SET_MESSAGE_REQUEST_MODE (401): whether a group pulls a topic or pops it; kept over a restart; 16, 17, 26 as
    usual.

    Differences: a mode that is neither PULL nor POP is refused with 29.
    """
    wish = RequestMode.decode(request.command.body)
    node, rules = request.node, request.node.rules
    if wish.topic.startswith(RETRY_PREFIX):
        raise Refusal(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    if wish.topic not in rules.topics:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{bare(wish.topic)}] not exist")
    if wish.group not in rules.groups:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"group [{bare(wish.group)}] not exist")
    if wish.mode is None:
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"mode: use {' or '.join(MODES)}")
    node.pops.modes.put(wish.group, wish.topic, Mode(wish.mode, wish.pop_share_queues))
    return when_saved()


def lock_batch(request: Request) -> Answer:
    """LOCK_BATCH_MQ (41): take or renew locks on queues; answers those that the client holds now.

    Differences: the owner of a queue is kept over a restart, and for a minute after it no other client gets the queue,
    where RocketMQ forgets all locks. A new lock is answered when it is on disk.
    """
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


def unlock_batch(request: Request) -> Answer:
    """UNLOCK_BATCH_MQ (42): let go of queues; those of other clients stay locked."""
    batch = LockBatch.decode(request.command.body)
    node = request.node
    node.locks.unlock(batch.group, batch.client_id, batch.queues)
    if not node.locks.is_saved:
        node.save_soon()
    return ok()
