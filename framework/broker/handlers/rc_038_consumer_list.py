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
    members = request.node.members
    group = members.find(header.consumer_group)
    if group is None or not (group.listing or (ids := members.client_ids(group.name))):
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {bare(header.consumer_group)}")
    if not group.listing:
        group.listing = ConsumerList(consumer_ids=tuple(ids)).encode()
    return ok(body=group.listing)
