"""GET_CONSUMER_CONNECTION_LIST (203): a group's members and what they subscribe to; 206 if no member is online.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.connections import connection_of, subscription_of
from framework.broker.request import Answer, Refusal, Request, ok
from framework.errors import bare
from framework.wire.bodies.connections import ConsumerConnections
from framework.wire.codes import ResponseCode
from framework.wire.requests.admin import ConsumerConnectionsRequest


def handle(request: Request) -> Answer:
    header = request.header(ConsumerConnectionsRequest)
    group = request.node.members.find(header.consumer_group)
    if group is None:
        raise Refusal(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{bare(header.consumer_group)}] not online")
    return ok(
        body=ConsumerConnections(
            connections=tuple(connection_of(member) for member in group.members.values()),
            subscriptions={topic: subscription_of(wanted) for topic, wanted in group.wanted.items()},
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from=group.consume_from,
        ).encode()
    )
