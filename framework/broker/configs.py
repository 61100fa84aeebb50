"""Topics and groups as administrators read and write them, and as they are kept here."""

from __future__ import annotations

from dataclasses import replace

from framework.broker.request import Refusal
from framework.broker.store.tables import SavedTable
from framework.broker.store.topics import PERM_INHERIT, PERM_READ_WRITE, StoredGroup, Topic
from framework.broker.topic_rules import QUEUES_MAX, TopicRules, check_topic_name
from framework.errors import shorten
from framework.wire.bodies.config import DataVersion, GroupConfig, GroupRetryPolicy, TopicConfig
from framework.wire.codes import ResponseCode


def topic_config(topic: Topic) -> TopicConfig:
    return TopicConfig(
        name=topic.name, read_queue_nums=topic.read_queues, write_queue_nums=topic.write_queues, perm=topic.perm,
        topic_sys_flag=topic.sys_flag, order=topic.is_ordered, attributes=topic.attributes,
    )  # fmt: skip


def put_topic(rules: TopicRules, config: TopicConfig, attribute_changes: str) -> None:
    """Make a topic or change it, or a Refusal."""
    check_topic_name(config.name)
    if rules.is_own(config.name):
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"The topic[{config.name}] is conflict with system topic.")
    for count in (config.read_queue_nums, config.write_queue_nums):
        if not 0 <= count <= QUEUES_MAX:
            raise Refusal(ResponseCode.INVALID_PARAMETER, f"{count} queues: a topic has 0 to {QUEUES_MAX}")
    if config.perm & ~(PERM_READ_WRITE | PERM_INHERIT):
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"perm {config.perm}: use 2 write, 4 read, 6 both")
    known = rules.topics.get(config.name)
    rules.add(
        Topic(
            name=config.name,
            read_queues=config.read_queue_nums,
            write_queues=config.write_queue_nums,
            perm=config.perm,
            is_ordered=config.order,
            sys_flag=config.topic_sys_flag,
            attributes=_attributes({} if known is None else known.attributes, attribute_changes),
        )
    )


def _attributes(known: dict[str, str], changes: str) -> dict[str, str]:
    """`+key=value,-key` applied."""
    attributes = dict(known)
    for change in filter(None, (part.strip() for part in changes.split(","))):
        sign, (name, _, value) = change[0], change[1:].partition("=")
        if (sign, name, value) == ("+", "message.type", "MIXED"):
            raise Refusal(ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported.")
        if sign == "+" and name and value:
            attributes[name] = value
        elif sign == "-" and name:
            attributes.pop(name, None)
        else:
            raise Refusal(ResponseCode.INVALID_PARAMETER, f"attribute {shorten(change)}: write +key=value or -key")
    return attributes


def group_config(group: StoredGroup) -> GroupConfig:
    kept = GroupConfig(name=group.name) if group.kept == "{}" else GroupConfig.decode(group.kept.encode())
    return replace(
        kept, name=group.name, consume_enable=group.may_consume, consume_broadcast_enable=group.may_broadcast,
        retry_queues=group.retry_queues, retries_max=group.retries_max,
        notify_consumer_ids_changed_enable=group.notifies_members, retry_policy=kept.retry_policy or GroupRetryPolicy(),
    )  # fmt: skip


def put_group(rules: TopicRules, config: GroupConfig) -> None:
    """Make a group or change it, or a Refusal. What nobody here acts on is kept as it came."""
    known = rules.groups.get(config.name)
    rules.put_group(
        StoredGroup(
            name=config.name,
            may_consume=config.consume_enable,
            may_broadcast=config.consume_broadcast_enable,
            retry_queues=config.retry_queues,
            retries_max=config.retries_max,
            notifies_members=config.notify_consumer_ids_changed_enable,
            forbidden=() if known is None else known.forbidden,
            kept=config.encode().decode(),
        )
    )


def version_of(table: SavedTable[str, Topic] | SavedTable[str, StoredGroup], started_ms: int) -> DataVersion:
    """Which state of a table this is, for clients that read it page by page."""
    return DataVersion(timestamp=started_ms, counter=table.changes)


def page_of(names: list[str], first: int | None, count: int | None) -> list[str]:
    """A page of names in order; all that follow where no count is given."""
    start = max(first or 0, 0)
    return sorted(names)[start:] if count is None or count <= 0 else sorted(names)[start : start + count]
