"""GET_SYSTEM_TOPIC_LIST_FROM_BROKER (305): the topics that the broker made for itself.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.request import Answer, Request, ok
from framework.wire.bodies.route import TopicList


def handle(request: Request) -> Answer:
    return ok(body=TopicList(topics=tuple(request.node.rules.own_topics())).encode())
