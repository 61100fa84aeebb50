"""GET_BROKER_MEMBER_GROUP (901): the replicas of a broker name: here always one, or none.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok
from framework.wire import dialect
from framework.wire.bodies.route import MASTER, BrokerMembers
from framework.wire.bodies.shape import to_json
from framework.wire.requests.route import BrokerMembersRequest


def handle(request: Request) -> Answer:
    header = request.header(BrokerMembersRequest)
    addresses: dict[int, str] = {}
    for node in request.node.neighbours():
        if node.name == header.broker_name and node.settings.cluster == header.cluster_name:
            addresses[MASTER] = node.address
    members = BrokerMembers(cluster=header.cluster_name, broker_name=header.broker_name, broker_addrs=addresses)
    return ok(body=dialect.dumps({"brokerMemberGroup": to_json(members)}, quote_integer_keys=False))
