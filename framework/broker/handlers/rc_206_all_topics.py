"""GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206): the names of all topics of all logical brokers.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.name_server import topics_of
from framework.broker.request import Answer, Request, ok
from framework.wire.bodies.route import TopicList


def handle(request: Request) -> Answer:
    return ok(body=TopicList(topics=tuple(topics_of(request.node.neighbours()))).encode())
