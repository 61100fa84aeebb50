"""RECALL_MESSAGE (370): a message that waits for its time is taken off the schedule; 16 where recall is switched off.

Differences: on by default (RocketMQ: off). A handle of this broker also says where the message lies; one that does
not fit its message is refused with 604. The message is taken off at once, where RocketMQ stores a second one that
cancels the first when both are due. Asked twice it succeeds twice. A due message is never taken off.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from framework.broker.node import Node
from framework.broker.records import decode
from framework.broker.request import AfterCommit, Answer, Refusal, Request, ok, refuse
from framework.broker.sending import ANSWER_EXTRAS, recall_handle
from framework.broker.store import delayed
from framework.broker.store.writer import Transaction
from framework.broker.transactions import REAL_TOPIC
from framework.model.message import UNIQUE_KEY
from framework.wire.codes import ResponseCode
from framework.wire.fields import to_fields
from framework.wire.requests.send import RecallAnswer, RecallRequest

_REGION = {"MSG_REGION": ANSWER_EXTRAS["MSG_REGION"]}
_INVALID = "recall handle is invalid"


class _Handle(NamedTuple):
    topic: str
    broker: str
    wall_ms: int
    message_id: str
    due_ms: int
    place: int


def handle(request: Request) -> Answer:
    try:
        return _recall(request)
    except Refusal as refusal:
        return refuse(refusal.code, refusal.remark, _REGION)


def _recall(request: Request) -> Answer:
    node, header = request.node, request.header(RecallRequest)
    if not node.switches.recalls:
        raise Refusal(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
    if not node.switches.is_writable:
        raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available")
    if node.rules.topics.get(header.topic) is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{header.topic}] not exist")
    found = _read(header.recall_handle)
    if found.topic != header.topic:
        raise Refusal(ResponseCode.ILLEGAL_OPERATION, "recall failed, topic not match")
    if found.broker != node.name:
        raise Refusal(ResponseCode.ILLEGAL_OPERATION, "recall failed, broker service not available")
    if found.due_ms <= node.delays.now_ms():
        raise Refusal(ResponseCode.ILLEGAL_OPERATION, "recall failed, timestamp invalid")
    _check_message(node, found)

    def take_back(transaction: Transaction) -> None:
        transaction.flush()  # what this very group has planned is still in the transaction's hands
        delayed.take_back(transaction.connection, found.due_ms, found.place)

    return AfterCommit(take_back, lambda _: ok({**to_fields(RecallAnswer(msg_id=found.message_id)), **_REGION}))


def _read(text: str) -> _Handle:
    try:
        version, topic, broker, wall, message_id, due, place = base64.urlsafe_b64decode(text).decode().split(" ")
        found = _Handle(topic, broker, int(wall), message_id, int(due), int(place))
    except (ValueError, binascii.Error):
        raise Refusal(ResponseCode.ILLEGAL_OPERATION, _INVALID) from None
    is_ours = (
        version == "v1" and recall_handle(*found) == text and 0 <= found.place < 1 << 63 and found.due_ms < 1 << 62
    )
    if not is_ours:
        raise Refusal(ResponseCode.ILLEGAL_OPERATION, _INVALID)
    return found


def _check_message(node: Node, found: _Handle) -> None:
    """What lies there must be the message that the handle names: anybody can write a handle."""
    at = node.store.log.at_place(found.place)
    properties = {} if at is None or at[0].broker != node.name else decode(at[1]).properties
    if (properties.get(REAL_TOPIC), properties.get(UNIQUE_KEY)) != (found.topic, found.message_id):
        raise Refusal(ResponseCode.ILLEGAL_OPERATION, _INVALID)
