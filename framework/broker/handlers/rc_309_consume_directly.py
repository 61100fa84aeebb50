"""CONSUME_MESSAGE_DIRECTLY (309): one member handles one stored message now; answers with the result; 1, 207 as 307.

Differences: those of 307. The offset of the group is not touched, as in RocketMQ.
"""

from __future__ import annotations

from framework.broker.asking_members import ask_member
from framework.broker.request import Answer, Refusal, Request
from framework.errors import shorten
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.ids import parse_offset_message_id
from framework.wire.requests.inbound import ConsumeDirectlyRequest


def handle(request: Request) -> Answer:
    header = request.header(ConsumeDirectlyRequest)
    node = request.node
    place = parse_offset_message_id(header.msg_id or "")
    found = None if place is None else node.store.log.at_place(place.commit_log_offset)
    if found is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no message has the offset id {shorten(header.msg_id or '')}")
    fields = {**request.command.fields, "brokerName": node.name}
    question = RemotingCommand(ConsumeDirectlyRequest.CODE, fields, found[1])
    return ask_member(request, header.consumer_group, header.client_id or "", question)
