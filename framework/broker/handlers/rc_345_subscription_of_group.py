"""QUERY_SUBSCRIPTION_BY_CONSUMER (345): what a group wants of a topic; nothing if no member is online.

Differences: a subscription that came with a pull is not shown; RocketMQ remembers it for ten minutes.
"""

from __future__ import annotations

from framework.broker.connections import subscription_of
from framework.broker.request import Answer, Request, ok
from framework.wire.bodies.connections import GroupSubscription
from framework.wire.requests.admin import SubscriptionOfGroupRequest


def handle(request: Request) -> Answer:
    header = request.header(SubscriptionOfGroupRequest)
    topic = header.topic or ""
    group = request.node.members.find(header.group)
    wanted = None if group is None else group.wanted.get(topic)
    subscription = None if wanted is None else subscription_of(wanted)
    return ok(body=GroupSubscription(group=header.group, topic=topic, subscription=subscription).encode())
