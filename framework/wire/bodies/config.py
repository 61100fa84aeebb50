"""Settings that brokers keep: of topics and of groups, and their versions."""

from __future__ import annotations

from collections.abc import Mapping

from framework.wire.bodies.enums import RetryPolicyType, TopicFilterType
from framework.wire.bodies.heartbeat import SubscriptionData
from framework.wire.bodies.shape import Body
from framework.wire.fields import Int32, wire


class DataVersion(Body):
    """Which state of a table this is."""

    state_version: int = 0
    timestamp: int = 0
    counter: int = 0


class TopicConfig(Body):
    name: str = wire("topicName")
    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = 6
    topic_filter_type: TopicFilterType = "SINGLE_TAG"
    topic_sys_flag: Int32 = 0
    order: bool = False
    attributes: Mapping[str, str] = wire("attributes", default_factory=dict)


class TopicConfigList(Body):
    topics: tuple[TopicConfig, ...] = wire("topicConfigList", default=())


class TopicConfigTable(Body):
    """All topics of a broker."""

    topics: Mapping[str, TopicConfig] = wire("topicConfigTable", default_factory=dict)
    version: DataVersion | None = wire("dataVersion", default=None)


class CustomizedRetryPolicy(Body):
    next_ms: tuple[int, ...] = wire("next", default=())


class ExponentialRetryPolicy(Body):
    initial: int = 5_000
    max: int = 7_200_000
    multiplier: int = 2


class GroupRetryPolicy(Body):
    """Used by the proxy and by POP alone."""

    type: RetryPolicyType = "CUSTOMIZED"
    customized: CustomizedRetryPolicy | None = wire("customizedRetryPolicy", default=None)
    exponential: ExponentialRetryPolicy | None = wire("exponentialRetryPolicy", default=None)


class GroupConfig(Body):
    """SubscriptionGroupConfig: a group as a broker keeps it."""

    name: str = wire("groupName")
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queues: Int32 = wire("retryQueueNums", default=1)
    retries_max: Int32 = wire("retryMaxTimes", default=16)
    retry_policy: GroupRetryPolicy | None = wire("groupRetryPolicy", default=None)
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: Int32 = 0
    consume_timeout_minute: Int32 = 15
    subscriptions: tuple[SubscriptionData, ...] | None = wire("subscriptionDataSet", default=None)
    attributes: Mapping[str, str] = wire("attributes", default_factory=dict)


class GroupConfigList(Body):
    groups: tuple[GroupConfig, ...] = wire("groupConfigList", default=())


class GroupConfigTable(Body):
    """All groups of a broker. `forbidden`: group -> topic -> bits of what it may not do."""

    groups: Mapping[str, GroupConfig] = wire("subscriptionGroupTable", default_factory=dict)
    forbidden: Mapping[str, Mapping[str, Int32]] = wire("forbiddenTable", default_factory=dict)
    version: DataVersion | None = wire("dataVersion", default=None)


class KeyValues(Body):
    """A table of texts: a broker's runtime figures, a name server's namespace."""

    table: Mapping[str, str] = wire("table", default_factory=dict)
