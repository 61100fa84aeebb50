"""GET_ALL_PRODUCER_INFO (328): every producer group with its connections.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.connections import language_of
from framework.broker.members import Member
from framework.broker.node import Node
from framework.broker.request import Answer, Request, ok
from framework.wire.bodies.connections import AllProducers, ProducerInfo


def handle(request: Request) -> Answer:
    node = request.node
    groups = {
        group: tuple(_info(node, member) for member in node.members.producers(group))
        for group in node.members.producer_groups()
    }
    return ok(body=AllProducers(groups=groups).encode())


def _info(node: Node, member: Member) -> ProducerInfo:
    return ProducerInfo(
        client_id=member.client_id,
        remote_ip=member.client.peer,
        language=language_of(member),
        version=member.version,
        last_update_timestamp=node.world.clock.now_ms() - node.members.silence_ms(member),
    )
