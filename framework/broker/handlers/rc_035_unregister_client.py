"""UNREGISTER_CLIENT (35): a client leaves a group, which is made where there is none; the others hear of it at once.

Differences: none known.
"""

from __future__ import annotations

from contextlib import suppress

from framework.broker.request import Answer, Refusal, Request, ok
from framework.wire.requests.group import UnregisterRequest


def handle(request: Request) -> Answer:
    header = request.header(UnregisterRequest)
    node = request.node
    if header.consumer_group:
        with suppress(Refusal):
            # Looking a group up makes it. Where that must not be, there is nobody to leave it.
            node.rules.group(header.consumer_group)
        if node.rules.groups.is_dirty:
            node.save_soon()
        node.members.left(request.client, header.consumer_group)
    if header.producer_group:
        node.members.producer_left(request.client, header.producer_group)
    return ok()
