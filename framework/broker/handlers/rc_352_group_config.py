"""GET_SUBSCRIPTIONGROUP_CONFIG (352): one group's settings; 26 where nobody made it.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.configs import group_config
from framework.broker.request import Answer, Refusal, Request, ok
from framework.errors import shorten
from framework.wire.codes import ResponseCode
from framework.wire.fields import from_fields
from framework.wire.requests.admin import GroupConfigRequest


def handle(request: Request) -> Answer:
    header = from_fields(GroupConfigRequest, request.command.fields)
    group = request.node.rules.groups.get(header.group)
    if group is None:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"No group in this broker. group: {shorten(header.group)}"
        )
    return ok(body=group_config(group).encode())
