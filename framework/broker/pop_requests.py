"""What the requests about popped messages share: checks in RocketMQ's order, with its codes, and a message's id."""

from __future__ import annotations

from framework.broker.filters import SQL92, TAG, Wanted, check_kind, wanted
from framework.broker.node import Node
from framework.broker.request import Refusal, Request
from framework.broker.store.queues import Queue
from framework.broker.store.topics import Topic
from framework.errors import bare
from framework.wire.codes import ResponseCode

BATCH_MAX = 32
WAIT_MS_MAX = 60_000
"""A pop waits no longer, whatever it asks for."""
INVISIBLE_MS_MAX = 24 * 3_600_000
"""Longer than any handler runs; what is held for longer is lost to the group."""


def check_consumer(request: Request, group_name: str, topic_name: str, number: int) -> Topic:
    """The topic that a group may pop, or a Refusal."""
    node = request.node
    if not node.switches.is_readable:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the broker[{node.address}] pop message is forbidden")
    topic = _topic(node, topic_name)
    if not topic.is_readable:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the topic[{topic_name}] peeking message is forbidden")
    if number >= topic.read_queues or number < -1:
        raise Refusal(ResponseCode.INVALID_PARAMETER, _no_queue(request, topic, number))
    group = node.rules.group(group_name)
    if not group.may_consume:
        raise Refusal(ResponseCode.NO_PERMISSION, f"subscription group no permission, {group_name}")
    if group.forbidden and topic_name in group.forbidden:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the consumer's group/topic[{group_name}/{topic_name}] forbidden")
    return topic


def check_place(request: Request, topic_name: str, number: int) -> None:
    """Refuse what names a topic or queue that is not there."""
    topic = _topic(request.node, topic_name)
    if not 0 <= number < topic.read_queues:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, _no_queue(request, topic, number))


def message_of(node: Node, topic: str, number: int, offset: int) -> int:
    """The id of the message at an offset, or a Refusal (208) where there is none."""
    queue = node.queue(topic, number)
    if not is_in(queue, offset):
        low, end = (0, 0) if queue is None else (queue.low, queue.end)
        raise Refusal(
            ResponseCode.NO_MESSAGE, f"offset is illegal, key:{topic}@{number}, commit:{offset}, store:{low}~{end}"
        )
    assert queue is not None
    return queue.base + offset


def is_in(queue: Queue | None, offset: int) -> bool:
    return queue is not None and queue.low <= offset < queue.end


def wanted_of(node: Node, topic: str, expression: str | None, kind: str | None) -> Wanted:
    """What a pop wants; every message where it does not say."""
    wish = wanted(topic, expression, kind=kind, is_strict=node.settings.is_sql_strict)
    if wish.kind == TAG:
        return wish
    check_kind(node, wish.kind)
    if wish.mistake or wish.kind != SQL92:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {wish.mistake}"
        )
    return wish


def _topic(node: Node, name: str) -> Topic:
    topic = node.rules.topics.get(name)
    if topic is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{bare(name)}] not exist, apply first please!")
    return topic


def _no_queue(request: Request, topic: Topic, number: int) -> str:
    return (
        f"queueId[{number}] is illegal, topic:[{topic.name}] topicConfig.readQueueNums:[{topic.read_queues}]"
        f" consumer:[{request.client.peer}]"
    )
