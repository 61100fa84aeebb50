"""INVOKE_BROKER_TO_RESET_OFFSET (222): a group continues elsewhere in a topic, its members online or not; 17, 26.

Differences: as 5.2 and later: the offsets are kept here until each queue's next pull takes them with 21; until then
commits are acknowledged and change nothing. They survive a restart, and held pulls of the group are answered at once.
The group's send-backs are forgotten, so that its messages may fail again. A queue that the topic lacks is refused with
1. isForce makes no difference, as there; nor does the list form for administrators in C++, which 5.x does not send
either.
"""

from __future__ import annotations

from framework.broker.node import Node
from framework.broker.request import AfterCommit, Answer, Refusal, Request, ok
from framework.broker.store.sent_back import forget
from framework.broker.store.topics import Topic
from framework.errors import bare
from framework.model.queue import MessageQueue
from framework.wire.bodies.progress import ResetOffsets
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.requests.admin import ResetOffsetRequest


def handle(request: Request) -> Answer:
    header = request.header(ResetOffsetRequest)
    node = request.node
    topic = node.rules.topics.get(header.topic)
    if topic is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {bare(header.topic)} does not exist")
    if node.rules.groups.get(header.group) is None:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {bare(header.group)} does not exist")
    offsets = _offsets(node, topic, header)
    for number, offset in offsets.items():
        node.offsets.reset(header.group, topic.name, number, offset)

    def answer(_: None) -> RemotingCommand:
        node.holds.look_again(header.group, topic.name)
        queues = {MessageQueue(topic.name, node.name, number): offset for number, offset in offsets.items()}
        return ok(body=ResetOffsets(offsets=queues).encode())

    return AfterCommit(lambda transaction: forget(transaction.connection, node.name, header.group), answer)


def _offsets(node: Node, topic: Topic, header: ResetOffsetRequest) -> dict[int, int]:
    """Queue number to offset: of all queues, or of the one asked for."""
    if header.queue_id < 0:
        return {number: _at(node, topic.name, number, header.timestamp) for number in range(topic.read_queues)}
    if header.queue_id >= topic.read_queues:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"queue {header.queue_id} is not one of {topic.name}")
    if header.offset is None or header.offset == -1:
        return {header.queue_id: _at(node, topic.name, header.queue_id, header.timestamp)}
    queue = node.queue(topic.name, header.queue_id)
    low, end = (0, 0) if queue is None else (queue.low, queue.end)
    if not low <= header.offset <= end + 1:  # one past the next, as there: the pull that follows sets it right
        raise Refusal(
            ResponseCode.SYSTEM_ERROR, f"Target offset {header.offset} not in consume queue range [{low}-{end}]"
        )
    return {header.queue_id: header.offset}


def _at(node: Node, topic: str, number: int, time_ms: int) -> int:
    queue = node.queue(topic, number)
    if queue is None:
        return 0
    return queue.end if time_ms < 0 else node.store.log.offset_at(queue, time_ms)
