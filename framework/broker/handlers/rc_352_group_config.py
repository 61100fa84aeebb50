"""GET_SUBSCRIPTIONGROUP_CONFIG (352): one group's settings; as there, asking makes it, or 26.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.configs import group_config
from framework.broker.request import Answer, Request, ok
from framework.wire.requests.admin import GroupConfigRequest


def handle(request: Request) -> Answer:
    header = request.header(GroupConfigRequest)
    return ok(body=group_config(request.node.rules.group(header.group)).encode())
