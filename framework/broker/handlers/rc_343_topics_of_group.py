"""QUERY_TOPICS_BY_CONSUMER (343): topics in which a group ever committed.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok
from framework.wire.bodies.route import TopicList
from framework.wire.requests.admin import TopicsOfGroupRequest


def handle(request: Request) -> Answer:
    header = request.header(TopicsOfGroupRequest)
    return ok(body=TopicList(topics=tuple(request.node.offsets.topics_of(header.group))).encode())
