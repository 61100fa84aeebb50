"""GET_BROKER_CLUSTER_INFO (106): every logical broker with its address, by cluster.

Differences: every port answers, for the whole process.
"""

from __future__ import annotations

from framework.broker.name_server import cluster_of
from framework.broker.request import Answer, Request, ok


def handle(request: Request) -> Answer:
    # Always in Java's dialect: the real name server has no other form of this answer.
    return ok(body=cluster_of(request.node.neighbours()).encode(quote_integer_keys=False))
