"""WIPE_WRITE_PERM_OF_BROKER (205): routes show none of a broker's topics as writable; answers their number.

Differences: it holds until the other of 205 and 327, or a restart. RocketMQ's name server forgets it when the broker
registers a changed topic, and 327 makes every topic 6, also one that was never writable. The broker itself stores what
reaches it, as RocketMQ's does.
"""

from __future__ import annotations

from framework.broker.name_server import wipe
from framework.broker.request import Answer, Request, ok
from framework.wire.fields import to_fields
from framework.wire.requests.route import WipeWritePermissionAnswer, WipeWritePermissionRequest


def handle(request: Request) -> Answer:
    header = request.header(WipeWritePermissionRequest)
    count = wipe(request.node.neighbours(), header.broker_name, is_wiped=True)
    return ok(to_fields(WipeWritePermissionAnswer(wipe_topic_count=count)))
