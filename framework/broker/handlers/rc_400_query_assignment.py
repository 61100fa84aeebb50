"""QUERY_ASSIGNMENT (400): a member's share of a topic's queues, divided here; null where it is to keep what it has.

Differences: a topic's queues are known at once, where RocketMQ's broker looks for a changed route every half minute. A
group pulls where nobody set a mode (401), as there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from framework.broker.members import BROADCASTING
from framework.broker.name_server import route_of
from framework.broker.node import Node
from framework.broker.pops import ANY_QUEUE
from framework.broker.request import Answer, Request, ok
from framework.broker.request_modes import POP, Mode
from framework.broker.store.topics import PERM_READ
from framework.model.queue import MessageQueue
from framework.wire.bodies.group import AssignmentQuery, Assignments, QueueAssignment

Divide: TypeAlias = Callable[[Sequence[MessageQueue], int, int], Sequence[MessageQueue]]


def handle(request: Request) -> Answer:
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
