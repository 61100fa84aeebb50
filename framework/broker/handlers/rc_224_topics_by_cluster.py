"""GET_TOPICS_BY_CLUSTER (224): the names of a cluster's topics.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.name_server import topics_of
from framework.broker.request import Answer, Request, ok
from framework.wire.bodies.route import TopicList
from framework.wire.requests.route import TopicsByClusterRequest


def handle(request: Request) -> Answer:
    header = request.header(TopicsByClusterRequest)
    nodes = [node for node in request.node.neighbours() if node.settings.cluster == header.cluster]
    return ok(body=TopicList(topics=tuple(topics_of(nodes))).encode())
