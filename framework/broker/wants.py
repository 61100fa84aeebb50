"""What a request would do, to which topics and groups: what a user's rules are asked about.

What is named `%..%GROUP` (retries, dead letters, progress) is that group's. What is not in these tables, or names
nothing, concerns the cluster: reading for a code that only reads, else changing. So a request that is forgotten here is
one for administrators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from framework.broker.rules import CLUSTER, CREATE, DELETE, GET, GROUP, PUB, SUB, TOPIC, UPDATE, Want
from framework.model.reserved import RETRY_PREFIX, group_of, pop_retry_topic
from framework.wire.bodies.group import AssignmentQuery, LockBatch
from framework.wire.bodies.heartbeat import CheckClientConfig, Heartbeat, SubscriptionData
from framework.wire.bodies.pop import BatchAck
from framework.wire.codes import RequestCode as Code
from framework.wire.command import RemotingCommand

DEFAULT_TOPIC = "TBW102"  # asked for by producers of topics that are still to be made; it holds nothing

_Named = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]  # actions, fields of topics, fields of groups

_TOPIC, _GROUP, _CONSUMERS = ("topic",), ("group",), ("consumerGroup",)

_BY_FIELDS: dict[int, _Named] = {
    Code.SEND_MESSAGE: ((PUB,), _TOPIC, ()),
    Code.SEND_MESSAGE_V2: ((PUB,), ("b",), ()),
    Code.SEND_BATCH_MESSAGE: ((PUB,), ("b",), ()),
    Code.SEND_REPLY_MESSAGE: ((PUB,), _TOPIC, ()),
    Code.SEND_REPLY_MESSAGE_V2: ((PUB,), ("b",), ()),
    Code.RECALL_MESSAGE: ((PUB,), _TOPIC, ()),
    Code.END_TRANSACTION: ((PUB,), _TOPIC, ()),
    Code.PULL_MESSAGE: ((SUB,), _TOPIC, _CONSUMERS),
    Code.LITE_PULL_MESSAGE: ((SUB,), _TOPIC, _CONSUMERS),
    Code.CONSUMER_SEND_MSG_BACK: ((SUB,), ("originTopic",), _GROUP),
    Code.GET_CONSUMER_LIST_BY_GROUP: ((SUB, GET), (), _CONSUMERS),
    Code.QUERY_CONSUMER_OFFSET: ((SUB, GET), _TOPIC, _CONSUMERS),
    Code.UPDATE_CONSUMER_OFFSET: ((SUB, UPDATE), _TOPIC, _CONSUMERS),
    Code.BOX_QUERY_PROGRESS: ((SUB,), _TOPIC, _CONSUMERS),
    Code.BOX_TAKE_PROGRESS: ((SUB,), _TOPIC, _CONSUMERS),
    Code.BOX_UPDATE_PROGRESS: ((SUB,), _TOPIC, _CONSUMERS),
    Code.QUERY_MESSAGE: ((SUB, GET), _TOPIC, ()),
    Code.GET_ROUTEINFO_BY_TOPIC: ((PUB, SUB, GET), _TOPIC, ()),
    # Any reader of a queue asks these, so SUB is enough, where RocketMQ wants GET of lite pull consumers.
    Code.SEARCH_OFFSET_BY_TIMESTAMP: ((SUB, GET), _TOPIC, ()),
    Code.GET_MAX_OFFSET: ((SUB, GET), _TOPIC, ()),
    Code.GET_MIN_OFFSET: ((SUB, GET), _TOPIC, ()),
    Code.GET_EARLIEST_MSG_STORETIME: ((SUB, GET), _TOPIC, ()),
    Code.UPDATE_AND_CREATE_TOPIC: ((CREATE,), _TOPIC, ()),
    Code.DELETE_TOPIC_IN_BROKER: ((DELETE,), _TOPIC, ()),
    Code.GET_TOPIC_CONFIG: ((GET,), _TOPIC, ()),
    Code.GET_TOPIC_STATS_INFO: ((GET,), _TOPIC, ()),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: ((GET,), _TOPIC, ()),
    Code.DELETE_SUBSCRIPTIONGROUP: ((DELETE,), (), ("groupName",)),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: ((GET,), (), _GROUP),
    Code.GET_CONSUMER_CONNECTION_LIST: ((GET,), (), _CONSUMERS),
    Code.GET_CONSUME_STATS: ((GET,), _TOPIC, _CONSUMERS),
    Code.GET_CONSUMER_RUNNING_INFO: ((GET,), (), _CONSUMERS),
    Code.QUERY_TOPICS_BY_CONSUMER: ((GET,), (), _GROUP),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: ((GET,), _TOPIC, _GROUP),
    Code.QUERY_CONSUME_TIME_SPAN: ((GET,), _TOPIC, _GROUP),
    Code.QUERY_CONSUME_QUEUE: ((GET,), _TOPIC, _CONSUMERS),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: ((GET,), _TOPIC, _GROUP),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: ((UPDATE,), _TOPIC, _GROUP),
    Code.CLONE_GROUP_OFFSET: ((UPDATE,), _TOPIC, ("srcGroup", "destGroup")),
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: ((UPDATE,), _TOPIC, _GROUP),
}

_READS_CLUSTER = frozenset(
    {
        Code.GET_ALL_TOPIC_CONFIG, Code.GET_BROKER_CONFIG, Code.GET_BROKER_RUNTIME_INFO, Code.VIEW_MESSAGE_BY_ID,
        Code.GET_ALL_CONSUMER_OFFSET, Code.GET_KV_CONFIG, Code.GET_BROKER_CLUSTER_INFO,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Code.GET_PRODUCER_CONNECTION_LIST, Code.GET_KVLIST_BY_NAMESPACE,
        Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Code.GET_TOPICS_BY_CLUSTER, Code.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, Code.VIEW_BROKER_STATS_DATA, Code.GET_BROKER_CONSUME_STATS,
        Code.GET_NAMESRV_CONFIG, Code.GET_ALL_PRODUCER_INFO, Code.GET_BROKER_HA_STATUS,
        Code.GET_COLD_DATA_FLOW_CTR_INFO, Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, Code.GET_BROKER_LITE_INFO,
        Code.AUTH_GET_USER, Code.AUTH_LIST_USER, Code.AUTH_GET_ACL, Code.AUTH_LIST_ACL,
    }
)  # fmt: skip


def wants_of(command: RemotingCommand, cluster: str) -> list[Want]:
    """Everything that must be allowed. Raises ProtocolError for a body that cannot be read."""
    body = _BY_BODY.get(command.code)
    if body is not None:
        return body(command)
    if command.code == Code.GET_ROUTEINFO_BY_TOPIC and command.fields.get("topic") == DEFAULT_TOPIC:
        return []
    actions, topics, groups = _BY_FIELDS.get(command.code, ((), (), ()))
    fields = command.fields
    wants = [_topic(fields[name], actions) for name in topics if fields.get(name)]
    wants += [_group(fields[name], actions) for name in groups if fields.get(name)]
    return wants or [Want(CLUSTER, cluster, actions or ((GET,) if command.code in _READS_CLUSTER else (UPDATE,)))]


def _topic(name: str, actions: tuple[str, ...]) -> Want:
    group = group_of(name)
    if group is None:
        return Want(TOPIC, name, actions)
    # Members write there themselves: retries that their broker does not take back, and what they have finished.
    return _group(group, (SUB,) if actions == (PUB,) else actions)


def _group(name: str, actions: tuple[str, ...]) -> Want:
    return Want(GROUP, name.removeprefix(RETRY_PREFIX), actions)


def _heartbeat(command: RemotingCommand) -> list[Want]:
    """Producers may always say that they are there; it is their sends that are looked at."""
    wants: list[Want] = []
    for consumer in Heartbeat.decode(command.body).consumers:
        wants += _joined(consumer.group, consumer.subscriptions)
    return wants


def _joined(group: str, subscriptions: Iterable[SubscriptionData]) -> list[Want]:
    return [_group(group, (SUB,)), *(_topic(each.topic, (SUB,)) for each in subscriptions)]


def _check(command: RemotingCommand) -> list[Want]:
    check = CheckClientConfig.decode(command.body)
    return _joined(check.group, [check.subscription])


def _divided(command: RemotingCommand) -> list[Want]:
    asked = AssignmentQuery.decode(command.body)
    return [_group(asked.group, (SUB,)), _topic(asked.topic, (SUB,))]


def _lock(command: RemotingCommand) -> list[Want]:
    batch = LockBatch.decode(command.body)
    return [_group(batch.group, (SUB,)), *(_topic(queue.topic, (SUB,)) for queue in batch.queues)]


def _unregister(command: RemotingCommand) -> list[Want]:
    group = command.fields.get("consumerGroup")
    return [_group(group, (SUB,))] if group else []


def _popped(command: RemotingCommand) -> list[Want]:
    """A retry is acknowledged by its own topic, and is its group's and its topic's."""
    group, topic = command.fields.get("consumerGroup", ""), command.fields.get("topic", "")
    return [_group(group, (SUB,)), _topic(topic.removeprefix(pop_retry_topic(group, "")), (SUB,))]


def _popped_many(command: RemotingCommand) -> list[Want]:
    wants: list[Want] = []
    for each in BatchAck.decode(command.body).acks if command.body else ():
        wants += [_group(each.group, (SUB,)), _topic(each.topic, (SUB,))]
    return wants


_BY_BODY: dict[int, Callable[[RemotingCommand], list[Want]]] = {
    Code.HEART_BEAT: _heartbeat,
    Code.CHECK_CLIENT_CONFIG: _check,
    Code.QUERY_ASSIGNMENT: _divided,
    Code.LOCK_BATCH_MQ: _lock,
    Code.UNLOCK_BATCH_MQ: _lock,
    Code.UNREGISTER_CLIENT: _unregister,
    Code.POP_MESSAGE: _popped,
    Code.ACK_MESSAGE: _popped,
    Code.BATCH_ACK_MESSAGE: _popped_many,
    Code.CHANGE_MESSAGE_INVISIBLETIME: _popped,
    Code.NOTIFICATION: _popped,
    Code.POLLING_INFO: _popped,
}
