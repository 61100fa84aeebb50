"""Groups: made, changed, listed and deleted."""

from __future__ import annotations

from dataclasses import replace

from framework.broker.answers import AfterCommit, Answer, Refusal, ok, when_saved
from framework.broker.handlers.topics import page_of
from framework.broker.request import Request
from framework.broker.store.popped import forget_group
from framework.broker.store.sent_back import forget
from framework.broker.store.topics import StoredGroup
from framework.broker.store.writer import Transaction
from framework.broker.topic_rules import TopicRules
from framework.errors import bare
from framework.wire import dialect
from framework.wire.bodies.config import DataVersion, GroupConfig, GroupConfigList, GroupConfigTable, GroupRetryPolicy
from framework.wire.bodies.route import TopicList
from framework.wire.codes import ResponseCode
from framework.wire.fields import to_fields
from framework.wire.requests import admin


def update_group(request: Request) -> Answer:
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200): make a group, or change its settings; answered when it is on disk.

    Differences: consumeEnable, consumeBroadcastEnable, retryQueueNums, retryMaxTimes and notifyConsumerIdsChangedEnable
    are acted on; the others are kept and shown. At most the broker's quota of groups.
    """
    put_group(request.node.rules, GroupConfig.decode(request.command.body))
    return when_saved()


def update_groups(request: Request) -> Answer:
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST (225): several groups at once; answered when they are on disk.

    Differences: those of 200. The groups before a refused one have been made.
    """
    for config in GroupConfigList.decode(request.command.body).groups:
        put_group(request.node.rules, config)
    return when_saved()


_MAY_NOT_READ = 1 << 2  # PermName.INDEX_PERM_READ


def all_group_configs(request: Request) -> Answer:
    """GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201): every group with its settings; a page of them where one is asked for."""
    header = request.header(admin.AllGroupConfigsRequest)
    node = request.node
    groups = dict(node.rules.groups.items())
    names = page_of(list(groups), header.group_seq, header.max_group_num)
    table = GroupConfigTable(
        groups={name: _config_of(groups[name]) for name in names},
        forbidden={
            name: dict.fromkeys(groups[name].forbidden, _MAY_NOT_READ) for name in names if groups[name].forbidden
        },
        version=DataVersion(timestamp=node.started_ms, counter=node.rules.groups.changes),
    )
    return ok(to_fields(admin.AllGroupConfigsAnswer(total_group_num=len(groups))), table.encode())


def get_group_config(request: Request) -> Answer:
    """GET_SUBSCRIPTIONGROUP_CONFIG (352): one group's settings; as there, asking makes it, or 26."""
    header = request.header(admin.GroupConfigRequest)
    return ok(body=_config_of(request.node.rules.group(header.group)).encode())


def delete_group(request: Request) -> Answer:
    """DELETE_SUBSCRIPTIONGROUP (207): forget a group's settings and, where asked for, its offsets.

    Differences: its send-backs and what it has popped are forgotten too, so that a group of the same name starts
    without them. None other known.
    """
    header = request.header(admin.DeleteGroupRequest)
    node, group = request.node, header.group_name
    node.rules.groups.drop(group)
    if header.clean_offset:
        node.offsets.drop_where(group=group)
        node.progress.drop_where(group=group)
    node.pulled = {key: offset for key, offset in node.pulled.items() if key[0] != group}
    node.rates = {key: rate for key, rate in node.rates.items() if key[0] != group}

    def change(transaction: Transaction) -> None:
        forget(transaction.connection, node.name, group)
        forget_group(transaction.connection, node.name, group)

    return AfterCommit(change, lambda _: ok())


def group_forbidden(request: Request) -> Answer:
    """UPDATE_AND_GET_GROUP_FORBIDDEN (353): whether a group may read a topic; changed where the request says so; 26.

    Differences: a group that may not read is refused also if its pull brings its own subscription; RocketMQ does not
    check that.
    """
    header = request.header(admin.GroupForbiddenRequest)
    rules = request.node.rules
    group = rules.groups.get(header.group)
    if group is None and header.readable is None:
        return ok(body=dialect.dumps({"group": header.group, "topic": header.topic, "readable": True}))
    if group is None:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"No group in this broker. group: {bare(header.group)}"
        )
    is_readable = header.topic not in group.forbidden if header.readable is None else header.readable
    answer = ok(body=dialect.dumps({"group": group.name, "topic": header.topic, "readable": is_readable}))
    if header.readable is None:
        return answer
    others = tuple(topic for topic in group.forbidden if topic != header.topic)
    rules.put_group(replace(group, forbidden=others if is_readable else (*others, header.topic)))
    return when_saved(answer)


def topics_of_group(request: Request) -> Answer:
    """QUERY_TOPICS_BY_CONSUMER (343): topics in which a group ever committed."""
    header = request.header(admin.TopicsOfGroupRequest)
    return ok(body=TopicList(topics=tuple(request.node.offsets.topics_of(header.group))).encode())


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


def _config_of(group: StoredGroup) -> GroupConfig:
    kept = GroupConfig(name=group.name) if group.kept == "{}" else GroupConfig.decode(group.kept.encode())
    return replace(
        kept, name=group.name, consume_enable=group.may_consume, consume_broadcast_enable=group.may_broadcast,
        retry_queues=group.retry_queues, retries_max=group.retries_max,
        notify_consumer_ids_changed_enable=group.notifies_members, retry_policy=kept.retry_policy or GroupRetryPolicy(),
    )  # fmt: skip
