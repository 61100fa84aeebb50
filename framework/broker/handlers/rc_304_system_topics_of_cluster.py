"""GET_SYSTEM_TOPIC_LIST_FROM_NS (304): the topics named after clusters and brokers, and one broker to ask for more.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.name_server import cluster_of
from framework.broker.request import Answer, Request, ok
from framework.wire.bodies.route import TopicList


def handle(request: Request) -> Answer:
    cluster = cluster_of(request.node.neighbours())
    return ok(body=TopicList(topics=(*cluster.clusters, *cluster.brokers), broker_addr=request.node.address).encode())
