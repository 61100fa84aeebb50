"""UNREGISTER_CLIENT (35): a client leaves a group; the others hear of it at once.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok
from framework.wire.fields import from_fields
from framework.wire.requests.group import UnregisterRequest


def handle(request: Request) -> Answer:
    header = from_fields(UnregisterRequest, request.command.fields)
    members = request.node.members
    if header.consumer_group:
        members.left(request.client, header.consumer_group)
    if header.producer_group:
        members.producer_left(request.client, header.producer_group)
    return ok()
