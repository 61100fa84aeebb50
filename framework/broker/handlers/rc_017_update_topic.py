"""UPDATE_AND_CREATE_TOPIC (17): make a topic, or change its queues and permissions; answered when it is on disk.

Differences: at most 1,024 queues and the broker's quota of topics. Attributes are kept, and only kept.
"""

from __future__ import annotations

from framework.broker.configs import put_topic
from framework.broker.request import Answer, Request, when_saved
from framework.wire.bodies.config import TopicConfig
from framework.wire.requests.admin import UpdateTopicRequest


def handle(request: Request) -> Answer:
    header = request.header(UpdateTopicRequest)
    config = TopicConfig(
        name=header.topic,
        read_queue_nums=header.read_queue_nums,
        write_queue_nums=header.write_queue_nums,
        perm=header.perm,
        topic_sys_flag=header.topic_sys_flag or 0,
        order=header.order,
    )
    put_topic(request.node.rules, config, header.attributes or "")
    return when_saved()
