"""Replies to requests: handed on to the client that asked, while whoever replies waits for what it says.

A reply is not kept: nobody reads it later than the requester, which waits no longer than its own limit.
"""

from __future__ import annotations

from functools import partial

from framework.broker.node import Node
from framework.broker.request import Refusal, Relay, Request, ok, refuse
from framework.broker.sending import ANSWER_EXTRAS, check_body, check_send, sent_of
from framework.errors import bare
from framework.wire import properties as texts
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import to_fields
from framework.wire.requests.send import PushReplyRequest, SendRequest, SendRequestV2

REPLY_TO, PUSHED_AT = "REPLY_TO_CLIENT", "PUSH_REPLY_TIME"
_TIMEOUT_MS = 10_000


def reply(request: Request, header: SendRequest | SendRequestV2) -> Relay | RemotingCommand:
    """0 where the requester took it; 1, in RocketMQ's words, where it is not connected, refuses or says nothing."""
    node, body = request.node, bytes(request.command.body)
    try:
        _, number = check_send(request, sent_of(header))
        check_body(node, body, header.properties or "")
    except Refusal as refusal:
        return refuse(refusal.code, refusal.remark, ANSWER_EXTRAS)
    properties = texts.decode(header.properties or "")
    client_id = properties.get(REPLY_TO)
    if client_id is None:
        return _refused(f"reply message properties[{REPLY_TO}] is null")
    member = node.members.producer(client_id)
    if member is None:
        return _refused(f"push reply message fail, channel of <{bare(client_id)}> not found.")
    properties |= ANSWER_EXTRAS  # as on a message that is stored
    properties[PUSHED_AT] = str(node.world.clock.now_ms())
    push = _push(node, request, header, texts.encode(properties), body)
    return Relay(((member.client, push),), _TIMEOUT_MS, partial(_answer, client_id, number))


def _push(
    node: Node, request: Request, header: SendRequest | SendRequestV2, properties: str, body: bytes
) -> RemotingCommand:
    push = PushReplyRequest(
        producer_group=header.producer_group,
        topic=header.topic,
        default_topic=header.default_topic,
        default_topic_queue_nums=header.default_topic_queue_nums,
        queue_id=header.queue_id,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        flag=header.flag,
        born_host=request.client.peer,
        store_host=node.address,
        store_timestamp=node.world.clock.now_ms(),
        properties=properties,
        reconsume_times=header.reconsume_times or 0,
        unit_mode=bool(header.unit_mode),
    )
    return RemotingCommand(PushReplyRequest.CODE, to_fields(push), body)


def _answer(client_id: str, number: int, answers: list[RemotingCommand | None]) -> RemotingCommand:
    said = answers[0]
    if said is None or said.code != ResponseCode.SUCCESS:
        return _refused(f"push reply message to {bare(client_id)}fail.")
    return ok({"msgId": "0", "queueId": str(number), "queueOffset": "0", **ANSWER_EXTRAS})


def _refused(remark: str) -> RemotingCommand:
    return refuse(ResponseCode.SYSTEM_ERROR, remark, ANSWER_EXTRAS)
