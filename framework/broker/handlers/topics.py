"""Topics: made, changed, listed and deleted."""

from __future__ import annotations

from framework.broker.answers import AfterCommit, Answer, Refusal, ok, refuse, when_saved
from framework.broker.request import Request
from framework.broker.store import dropped
from framework.broker.store.queues import Queue
from framework.broker.store.topics import PERM_INHERIT, PERM_READ_WRITE, Topic
from framework.broker.store.writer import Transaction
from framework.broker.topic_rules import QUEUES_MAX, TopicRules, check_topic_name
from framework.errors import FrameworkError, bare, shorten
from framework.wire.bodies.config import DataVersion, TopicConfig, TopicConfigList, TopicConfigTable
from framework.wire.bodies.route import TopicList
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import to_fields
from framework.wire.requests import admin


def update_topic(request: Request) -> Answer:
    """UPDATE_AND_CREATE_TOPIC (17): make a topic, or change its queues and permissions; answered when it is on disk.

    Differences: at most 1,024 queues and the broker's quota of topics. Attributes are kept, and only kept.
    """
    header = request.header(admin.UpdateTopicRequest)
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


def update_topics(request: Request) -> Answer:
    """UPDATE_AND_CREATE_TOPIC_LIST (18): several topics at once; answered when they are on disk.

    Differences: those of 17. The topics before a refused one have been made, as in RocketMQ.
    """
    for config in TopicConfigList.decode(request.command.body).topics:
        changes = ",".join(_change(name, value) for name, value in config.attributes.items())
        put_topic(request.node.rules, config, changes)
    return when_saved()


def _change(name: str, value: str) -> str:
    """One attribute as 17 has it: a name that begins with - goes."""
    return name if name.startswith("-") else f"+{name.removeprefix('+')}={value}"


def all_topic_configs(request: Request) -> Answer:
    """GET_ALL_TOPIC_CONFIG (21): every topic of this broker with its settings; a page of them where one is asked for.

    Differences: there are no static topics' mappings.
    """
    header = request.header(admin.AllTopicConfigsRequest)
    node = request.node
    topics = dict(node.rules.topics.items())
    names = page_of(list(topics), header.topic_seq, header.max_topic_num)
    table = TopicConfigTable(
        topics={name: _config_of(topics[name]) for name in names},
        version=DataVersion(timestamp=node.started_ms, counter=node.rules.topics.changes),
    )
    return ok(to_fields(admin.AllTopicConfigsAnswer(total_topic_num=len(topics))), table.encode())


def get_topic_config(request: Request) -> Answer:
    """GET_TOPIC_CONFIG (351): one topic's settings, or 17.

    Differences: there are no static topics, so the mapping is never there.
    """
    header = request.header(admin.TopicConfigRequest)
    topic = request.node.rules.topics.get(header.topic)
    if topic is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {bare(header.topic)}")
    return ok(body=_config_of(topic).encode())


def delete_topic(request: Request) -> Answer:
    """DELETE_TOPIC_IN_BROKER (215): a topic with its messages and all offsets in it; 0 also where there is none.

    Differences: its messages are unreachable at once and removed bit by bit. Its place in the log is not used again.
    Retry topics of pop are not deleted along. Delayed messages that were sent to it are still delivered, to a topic of
    the same name.
    """
    header = request.header(admin.DeleteTopicRequest)
    node, name = request.node, header.topic
    if not name.strip():
        raise Refusal(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
    if node.rules.is_own(name):
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"The topic[{name}] is conflict with system topic.")
    topic = node.rules.topics.get(name)
    queues = node.store.queues
    gone: list[Queue] = []
    node.rules.topics.drop(name)
    node.offsets.drop_where(topic=name)
    node.progress.drop_where(topic=name)
    node.pulled = {key: offset for key, offset in node.pulled.items() if key[1] != name}
    node.stored.pop(name, None)
    node.rates = {key: rate for key, rate in node.rates.items() if key[1] != name}

    def restore() -> None:
        for queue in gone:
            queues.restore(queue)
        gone.clear()

    def change(transaction: Transaction) -> None:
        restore()  # this may be the second run, after the first was undone
        gone.extend(queues.of_topic(node.name, name))
        dropped.drop(transaction, gone)
        # Within the transaction: what is written to a topic of this name from here on goes to a new queue.
        for queue in gone:
            queues.forget(queue)

    def answer(_: None) -> RemotingCommand:
        node.store.sweep.start()
        return ok()

    def refused(error: FrameworkError) -> RemotingCommand:
        restore()
        if topic is not None and name not in node.rules.topics:
            node.rules.topics.put(name, topic)
        return refuse(ResponseCode.SYSTEM_ERROR, f"topic {name} was not deleted: {error}")

    return AfterCommit(change, answer, refused)


def system_topics_of_broker(request: Request) -> Answer:
    """GET_SYSTEM_TOPIC_LIST_FROM_BROKER (305): the topics that the broker made for itself."""
    return ok(body=TopicList(topics=tuple(request.node.rules.own_topics())).encode())


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


def _config_of(topic: Topic) -> TopicConfig:
    return TopicConfig(
        name=topic.name, read_queue_nums=topic.read_queues, write_queue_nums=topic.write_queues, perm=topic.perm,
        topic_sys_flag=topic.sys_flag, order=topic.is_ordered, attributes=topic.attributes,
    )  # fmt: skip


def page_of(names: list[str], first: int | None, count: int | None) -> list[str]:
    """A page of names in order; all that follow where no count is given."""
    start = max(first or 0, 0)
    return sorted(names)[start:] if count is None or count <= 0 else sorted(names)[start : start + count]
