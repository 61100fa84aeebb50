"""Requests of administrators to a broker: topics, groups, connections, statistics, resets.

Requests that the broker hands on to a client (running info, direct consumption) are in `inbound.py`.
"""

from __future__ import annotations

from framework.wire.codes import RequestCode
from framework.wire.fields import Header, Int32, RequestHeader, wire

# Topics


class UpdateTopicRequest(RequestHeader, code=RequestCode.UPDATE_AND_CREATE_TOPIC):
    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None
    """`+key=value,-key`."""
    force: bool | None = None


class DeleteTopicRequest(RequestHeader, code=RequestCode.DELETE_TOPIC_IN_BROKER):
    topic: str


class TopicConfigRequest(RequestHeader, code=RequestCode.GET_TOPIC_CONFIG):
    topic: str


class AllTopicConfigsRequest(RequestHeader, code=RequestCode.GET_ALL_TOPIC_CONFIG):
    """Old callers send no field at all."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class AllTopicConfigsAnswer(Header):
    total_topic_num: Int32 | None = None


class TopicStatsRequest(RequestHeader, code=RequestCode.GET_TOPIC_STATS_INFO):
    topic: str


class GroupsOfTopicRequest(RequestHeader, code=RequestCode.QUERY_TOPIC_CONSUME_BY_WHO):
    topic: str


# Groups


class DeleteGroupRequest(RequestHeader, code=RequestCode.DELETE_SUBSCRIPTIONGROUP):
    group_name: str
    clean_offset: bool = False


class AllGroupConfigsRequest(RequestHeader, code=RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG):
    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class AllGroupConfigsAnswer(Header):
    total_group_num: Int32 | None = None


class GroupConfigRequest(RequestHeader, code=RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG):
    group: str


class GroupForbiddenRequest(RequestHeader, code=RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN):
    group: str
    topic: str
    readable: bool | None = None


class TopicsOfGroupRequest(RequestHeader, code=RequestCode.QUERY_TOPICS_BY_CONSUMER):
    group: str


class SubscriptionOfGroupRequest(RequestHeader, code=RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER):
    group: str
    topic: str | None = None


# Connections


class ConsumerConnectionsRequest(RequestHeader, code=RequestCode.GET_CONSUMER_CONNECTION_LIST):
    """Answered 206 where nobody is online."""

    consumer_group: str


class ProducerConnectionsRequest(RequestHeader, code=RequestCode.GET_PRODUCER_CONNECTION_LIST):
    producer_group: str


# Progress


class ConsumeStatsRequest(RequestHeader, code=RequestCode.GET_CONSUME_STATS):
    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class BrokerConsumeStatsRequest(RequestHeader, code=RequestCode.GET_BROKER_CONSUME_STATS):
    is_order: bool = False


class ResetOffsetRequest(RequestHeader, code=RequestCode.INVOKE_BROKER_TO_RESET_OFFSET):
    """By time (-1: to the end), or by queue and offset."""

    topic: str
    group: str
    timestamp: int
    is_force: bool = False
    queue_id: Int32 = -1
    offset: int | None = None


class ConsumerStatusRequest(RequestHeader, code=RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS):
    topic: str
    group: str
    client_addr: str | None = None


class CloneOffsetsRequest(RequestHeader, code=RequestCode.CLONE_GROUP_OFFSET):
    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


# The broker itself


class BrokerRuntimeRequest(RequestHeader, code=RequestCode.GET_BROKER_RUNTIME_INFO): ...


class BrokerConfigRequest(RequestHeader, code=RequestCode.GET_BROKER_CONFIG):
    """Answered with the broker's settings as `name=value` lines."""


class BrokerConfigAnswer(Header):
    version: str


class BrokerStatsRequest(RequestHeader, code=RequestCode.VIEW_BROKER_STATS_DATA):
    stats_name: str
    stats_key: str


class ReadAheadRequest(RequestHeader, code=RequestCode.SET_COMMITLOG_READ_MODE):
    mode: str = wire("READ_AHEAD_MODE")
