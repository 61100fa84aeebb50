"""VIEW_MESSAGE_BY_ID (33): the record at a commit-log offset.

Differences: an offset inside a record finds nothing; RocketMQ reads from there and may answer garbage.
"""

from __future__ import annotations

from framework.broker.request import Answer, Refusal, Request, ok
from framework.wire.codes import ResponseCode
from framework.wire.requests.query import ViewMessageRequest


def handle(request: Request) -> Answer:
    header = request.header(ViewMessageRequest)
    found = request.node.store.log.at_place(header.offset)
    if found is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"can not find message by offset: {header.offset}")
    return ok(body=found[1])
