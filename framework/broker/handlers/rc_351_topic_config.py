"""GET_TOPIC_CONFIG (351): one topic's settings, or 17.

Differences: there are no static topics, so the mapping is never there.
"""

from __future__ import annotations

from framework.broker.configs import topic_config
from framework.broker.request import Answer, Refusal, Request, ok
from framework.errors import bare
from framework.wire.codes import ResponseCode
from framework.wire.requests.admin import TopicConfigRequest


def handle(request: Request) -> Answer:
    header = request.header(TopicConfigRequest)
    topic = request.node.rules.topics.get(header.topic)
    if topic is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {bare(header.topic)}")
    return ok(body=topic_config(topic).encode())
