"""GET_ALL_TOPIC_CONFIG (21): every topic of this broker with its settings; a page of them where one is asked for.

Differences: there are no static topics' mappings.
"""

from __future__ import annotations

from framework.broker.configs import page_of, topic_config, version_of
from framework.broker.request import Answer, Request, ok
from framework.wire.bodies.config import TopicConfigTable
from framework.wire.fields import to_fields
from framework.wire.requests.admin import AllTopicConfigsAnswer, AllTopicConfigsRequest


def handle(request: Request) -> Answer:
    header = request.header(AllTopicConfigsRequest)
    node = request.node
    topics = dict(node.rules.topics.items())
    names = page_of(list(topics), header.topic_seq, header.max_topic_num)
    table = TopicConfigTable(
        topics={name: topic_config(topics[name]) for name in names},
        version=version_of(node.rules.topics, node.started_ms),
    )
    return ok(to_fields(AllTopicConfigsAnswer(total_topic_num=len(topics))), table.encode())
