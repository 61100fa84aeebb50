"""GET_CONSUMER_LIST_BY_GROUP (38): the client ids of a group's connections; 1 where there is none.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.request import Answer, Refusal, Request, ok
from framework.errors import bare
from framework.wire.bodies.group import ConsumerList
from framework.wire.codes import ResponseCode
from framework.wire.requests.group import MembersRequest


def handle(request: Request) -> Answer:
    header = request.header(MembersRequest)
    ids = request.node.members.client_ids(header.consumer_group)
    if not ids:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {bare(header.consumer_group)}")
    return ok(body=ConsumerList(consumer_ids=tuple(ids)).encode())
