"""Which topics and groups exist, who may make one, and which names are legal: RocketMQ's rules with its codes.

Making one is immediate in memory and reaches the disk with the next group of writes, which is that of the message or
answer that needed it.
"""

from __future__ import annotations

from framework.broker.answers import Refusal
from framework.broker.delays import TIMER_TOPIC
from framework.broker.settings import BrokerSettings
from framework.broker.store.topics import PERM_INHERIT, PERM_READ_WRITE, GroupTable, StoredGroup, Topic, TopicTable
from framework.broker.switches import Switches
from framework.errors import bare, shorten
from framework.model.reserved import (
    AUTO_CREATE_TOPIC,
    DEAD_LETTER_PREFIX,
    GIVEN_UP_TOPIC,
    GROUP_LENGTH_MAX,
    HALF_TOPIC,
    LONG_TOPIC_LENGTH_MAX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TOOLS_GROUP,
    TOPIC_LENGTH_MAX,
    dead_letter_topic,
    is_legal,
    reply_topic,
    retry_topic,
)
from framework.wire.codes import ResponseCode

SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
NOT_SENDABLE = frozenset(
    {
        SCHEDULE_TOPIC,
        TIMER_TOPIC,
        HALF_TOPIC,
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        GIVEN_UP_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)
RESERVED = NOT_SENDABLE | {AUTO_CREATE_TOPIC, "BenchmarkTest", "RMQ_SYS_TRACE_TOPIC"}
QUEUES_MAX = 1024  # RocketMQ's largest topic of its own; a route lists every queue to every client


def is_special(name: str) -> bool:
    """A retry or dead-letter topic."""
    return name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))


def check_topic_name(name: str) -> None:
    """Refuse (29) what RocketMQ's validator refuses."""
    if not name.strip():
        raise Refusal(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
    if not is_legal(name, LONG_TOPIC_LENGTH_MAX):
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"The specified topic {bare(name)} contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        )
    if len(name) > TOPIC_LENGTH_MAX and not is_special(name):
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"The specified topic is longer than topic max length {TOPIC_LENGTH_MAX}: {bare(name)}",
        )


def check_group_name(name: str) -> None:
    """Refuse (29) what is no name of a group."""
    if not is_legal(name, GROUP_LENGTH_MAX):
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"the group {shorten(name)} is no name: use 1 to {GROUP_LENGTH_MAX} of the characters A-Z a-z 0-9 _ - % |",
        )


class TopicRules:
    """The topics and groups of one logical broker, and the making of new ones."""

    def __init__(
        self, topics: TopicTable, groups: GroupTable, settings: BrokerSettings, switches: Switches, broker: str
    ) -> None:
        self.topics = topics
        self.groups = groups
        self._settings = settings
        self._switches = switches
        self._own = {
            AUTO_CREATE_TOPIC: (settings.topic_queues, PERM_READ_WRITE | PERM_INHERIT),
            SCHEDULE_TOPIC: (len(settings.delays_ms), PERM_READ_WRITE),
            TIMER_TOPIC: (1, PERM_READ_WRITE),
            SELF_TEST_TOPIC: (1, PERM_READ_WRITE),
            OFFSET_MOVED_TOPIC: (1, PERM_READ_WRITE),
            HALF_TOPIC: (1, PERM_READ_WRITE),
            GIVEN_UP_TOPIC: (1, PERM_READ_WRITE),
            reply_topic(settings.cluster): (1, PERM_READ_WRITE),
            settings.cluster: (16, PERM_READ_WRITE | PERM_INHERIT),
            broker: (1, PERM_READ_WRITE | PERM_INHERIT),
        }
        for name, (queues, perm) in self._own.items():
            topics.load(name, Topic(name=name, read_queues=queues, write_queues=queues, perm=perm))
        if groups.get(TOOLS_GROUP) is None:  # so that whoever looks makes none
            groups.load(TOOLS_GROUP, StoredGroup(name=TOOLS_GROUP))

    def is_own(self, name: str) -> bool:
        """A topic that the broker itself made, or one that only a broker may."""
        return name in self._own or name in RESERVED

    def for_send(self, name: str, default_topic: str, default_queues: int) -> Topic:
        """The topic a producer names; made after the default topic where that allows it, else 17."""
        topic = self.topics.get(name)
        if topic is not None:
            return topic
        if name.startswith(RETRY_PREFIX):
            return self.retry_topic(name.removeprefix(RETRY_PREFIX))
        default = self.topics.get(default_topic)
        is_closed = default_topic == AUTO_CREATE_TOPIC and not self._switches.creates_topics
        if default is None or is_closed or not default.perm & PERM_INHERIT:
            raise Refusal(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{bare(name)}] not exist, apply first please! See https://rocketmq.apache.org/docs/bestPractice/06FAQ",
            )
        queues = max(min(default_queues, default.write_queues), 1)
        return self.add(Topic(name=name, read_queues=queues, write_queues=queues, perm=default.perm & ~PERM_INHERIT))

    def add(self, topic: Topic) -> Topic:
        """Make a topic, or replace its settings."""
        if topic.name not in self.topics and not is_special(topic.name):
            count = sum(1 for name, _ in self.topics.items() if not is_special(name)) - len(self._own)
            if count >= self._settings.topics_max:
                raise Refusal(
                    ResponseCode.TOPIC_NOT_EXIST,
                    f"topic[{topic.name}] not made: the quota of {self._settings.topics_max} topics is used up",
                )
        self.topics.put(topic.name, topic)
        return topic

    def retry_topic(self, group: str) -> Topic:
        """The group's retry topic, made where it is not."""
        name = retry_topic(group)
        queues = max(self.group(group).retry_queues, 1)
        return self.topics.get(name) or self.add(Topic(name=name, read_queues=queues, write_queues=queues))

    def dead_letter_topic(self, group: str) -> Topic:
        name = dead_letter_topic(group)
        return self.topics.get(name) or self.add(Topic(name=name, read_queues=1, write_queues=1))

    def own_topics(self) -> list[str]:
        """Those that the broker made for itself."""
        return list(self._own)

    def put_group(self, group: StoredGroup) -> None:
        """Make a group, or replace its settings."""
        check_group_name(group.name)
        if group.name not in self.groups and len(self.groups) >= self._settings.groups_max:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"subscription group [{group.name}] not made: the quota of {self._settings.groups_max} is used up",
            )
        self.groups.put(group.name, group)

    def group(self, name: str) -> StoredGroup:
        """The group's settings; made with the usual ones where nobody made it, else 26."""
        found = self.groups.get(name)
        if found is not None:
            return found
        check_group_name(name)
        if not self._switches.creates_groups:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{name}] does not exist, make it first"
            )
        if len(self.groups) >= self._settings.groups_max:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{name}] not made: the quota of {self._settings.groups_max} groups is used up",
            )
        made = StoredGroup(name=name)
        self.groups.put(name, made)
        return made
