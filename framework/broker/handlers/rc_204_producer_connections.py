"""GET_PRODUCER_CONNECTION_LIST (204): the connections of a producer group; 1 where there is none.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.connections import connection_of
from framework.broker.request import Answer, Refusal, Request, ok
from framework.errors import bare
from framework.wire.bodies.connections import ProducerConnections
from framework.wire.codes import ResponseCode
from framework.wire.requests.admin import ProducerConnectionsRequest


def handle(request: Request) -> Answer:
    header = request.header(ProducerConnectionsRequest)
    members = request.node.members.producers(header.producer_group)
    if not members:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the producer group[{bare(header.producer_group)}] not exist")
    return ok(body=ProducerConnections(connections=tuple(connection_of(member) for member in members)).encode())
