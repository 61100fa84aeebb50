"""UPDATE_AND_CREATE_TOPIC_LIST (18): several topics at once; answered when they are on disk.

Differences: those of 17. The topics before one that is refused have been made, as in RocketMQ.
"""

from __future__ import annotations

from framework.broker.configs import put_topic
from framework.broker.request import Answer, Request, when_saved
from framework.wire.bodies.config import TopicConfigList


def handle(request: Request) -> Answer:
    for config in TopicConfigList.decode(request.command.body).topics:
        changes = ",".join(_change(name, value) for name, value in config.attributes.items())
        put_topic(request.node.rules, config, changes)
    return when_saved()


def _change(name: str, value: str) -> str:
    """One attribute as 17 has it: a name that begins with - goes."""
    return name if name.startswith("-") else f"+{name.removeprefix('+')}={value}"
