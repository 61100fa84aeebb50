"""Requests of administrators to a broker: topics, groups, connections, statistics, resets.

Requests that the broker hands on to a client (running info, direct consumption) are in `inbound.py`.
"""

from __future__ import annotations

from typing import ClassVar

from framework.wire.codes import RequestCode
from framework.wire.fields import Int32, header, wire

# Topics


@header
class UpdateTopicRequest:
    CODE: ClassVar = RequestCode.UPDATE_AND_CREATE_TOPIC
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


@header
class DeleteTopicRequest:
    CODE: ClassVar = RequestCode.DELETE_TOPIC_IN_BROKER
    topic: str


@header
class TopicConfigRequest:
    CODE: ClassVar = RequestCode.GET_TOPIC_CONFIG
    topic: str


@header
class AllTopicConfigsRequest:
    """Old callers send no field at all."""

    CODE: ClassVar = RequestCode.GET_ALL_TOPIC_CONFIG
    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


@header
class AllTopicConfigsAnswer:
    total_topic_num: Int32 | None = None


@header
class TopicStatsRequest:
    CODE: ClassVar = RequestCode.GET_TOPIC_STATS_INFO
    topic: str


@header
class GroupsOfTopicRequest:
    CODE: ClassVar = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO
    topic: str


# Groups


@header
class DeleteGroupRequest:
    CODE: ClassVar = RequestCode.DELETE_SUBSCRIPTIONGROUP
    group_name: str
    clean_offset: bool = False


@header
class AllGroupConfigsRequest:
    CODE: ClassVar = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


@header
class AllGroupConfigsAnswer:
    total_group_num: Int32 | None = None


@header
class GroupConfigRequest:
    CODE: ClassVar = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG
    group: str


@header
class GroupForbiddenRequest:
    CODE: ClassVar = RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN
    group: str
    topic: str
    readable: bool | None = None


@header
class TopicsOfGroupRequest:
    CODE: ClassVar = RequestCode.QUERY_TOPICS_BY_CONSUMER
    group: str


@header
class SubscriptionOfGroupRequest:
    CODE: ClassVar = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER
    group: str
    topic: str | None = None


# Connections


@header
class ConsumerConnectionsRequest:
    """Answered 206 where nobody is online."""

    CODE: ClassVar = RequestCode.GET_CONSUMER_CONNECTION_LIST
    consumer_group: str


@header
class ProducerConnectionsRequest:
    CODE: ClassVar = RequestCode.GET_PRODUCER_CONNECTION_LIST
    producer_group: str


# Progress


@header
class ConsumeStatsRequest:
    CODE: ClassVar = RequestCode.GET_CONSUME_STATS
    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


@header
class BrokerConsumeStatsRequest:
    CODE: ClassVar = RequestCode.GET_BROKER_CONSUME_STATS
    is_order: bool = False


@header
class ResetOffsetRequest:
    """By time (-1: to the end), or by queue and offset."""

    CODE: ClassVar = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
    topic: str
    group: str
    timestamp: int
    is_force: bool = False
    queue_id: Int32 = -1
    offset: int | None = None


@header
class ConsumerStatusRequest:
    CODE: ClassVar = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
    topic: str
    group: str
    client_addr: str | None = None


@header
class CloneOffsetsRequest:
    CODE: ClassVar = RequestCode.CLONE_GROUP_OFFSET
    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


# The broker itself


@header
class BrokerRuntimeRequest:
    CODE: ClassVar = RequestCode.GET_BROKER_RUNTIME_INFO


@header
class BrokerConfigRequest:
    """Answered with the broker's settings as `name=value` lines."""

    CODE: ClassVar = RequestCode.GET_BROKER_CONFIG


@header
class BrokerConfigAnswer:
    version: str


@header
class BrokerStatsRequest:
    CODE: ClassVar = RequestCode.VIEW_BROKER_STATS_DATA
    stats_name: str
    stats_key: str


@header
class ReadAheadRequest:
    CODE: ClassVar = RequestCode.SET_COMMITLOG_READ_MODE
    mode: str = wire("READ_AHEAD_MODE")
