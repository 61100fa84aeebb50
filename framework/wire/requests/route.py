"""Requests to a name server: routes, topics, permissions, its key-value settings."""

from __future__ import annotations

from typing import ClassVar

from framework.wire.codes import RequestCode
from framework.wire.fields import Int32, header

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"


@header
class RouteRequest:
    """Answered with a TopicRoute, or 17. Asking for standard JSON costs nothing and spares us Java's dialect."""

    CODE: ClassVar = RequestCode.GET_ROUTEINFO_BY_TOPIC
    topic: str
    accept_standard_json_only: bool | None = None


@header
class TopicListRequest:
    CODE: ClassVar = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER


@header
class ClusterInfoRequest:
    """Every broker that the name server knows."""

    CODE: ClassVar = RequestCode.GET_BROKER_CLUSTER_INFO


@header
class TopicsByClusterRequest:
    CODE: ClassVar = RequestCode.GET_TOPICS_BY_CLUSTER
    cluster: str


@header
class SystemTopicsRequest:
    CODE: ClassVar = RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS


@header
class PutKeyRequest:
    CODE: ClassVar = RequestCode.PUT_KV_CONFIG
    namespace: str
    key: str
    value: str


@header
class GetKeyRequest:
    """Answered 22 where the key is not there."""

    CODE: ClassVar = RequestCode.GET_KV_CONFIG
    namespace: str
    key: str


@header
class GetKeyAnswer:
    value: str | None = None


@header
class DeleteKeyRequest:
    CODE: ClassVar = RequestCode.DELETE_KV_CONFIG
    namespace: str
    key: str


@header
class KeysOfNamespaceRequest:
    CODE: ClassVar = RequestCode.GET_KVLIST_BY_NAMESPACE
    namespace: str


@header
class WipeWritePermissionRequest:
    CODE: ClassVar = RequestCode.WIPE_WRITE_PERM_OF_BROKER
    broker_name: str


@header
class WipeWritePermissionAnswer:
    wipe_topic_count: Int32


@header
class AddWritePermissionRequest:
    CODE: ClassVar = RequestCode.ADD_WRITE_PERM_OF_BROKER
    broker_name: str


@header
class AddWritePermissionAnswer:
    add_topic_count: Int32


@header
class BrokerMembersRequest:
    CODE: ClassVar = RequestCode.GET_BROKER_MEMBER_GROUP
    cluster_name: str
    broker_name: str
