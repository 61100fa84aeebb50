"""QUERY_TOPIC_CONSUME_BY_WHO (300): groups that read a topic, or ever committed in it.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.progress import groups_of
from framework.broker.request import Answer, Request, ok
from framework.wire.bodies.route import GroupList
from framework.wire.requests.admin import GroupsOfTopicRequest


def handle(request: Request) -> Answer:
    header = request.header(GroupsOfTopicRequest)
    return ok(body=GroupList(groups=tuple(groups_of(request.node, header.topic))).encode())
