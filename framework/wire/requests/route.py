"""What a name server is asked: routes, the cluster, topics, permissions, its key-value settings."""

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
class ClusterInfoRequest:
    CODE: ClassVar = RequestCode.GET_BROKER_CLUSTER_INFO


@header
class TopicListRequest:
    CODE: ClassVar = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER


@header
class TopicsByClusterRequest:
    CODE: ClassVar = RequestCode.GET_TOPICS_BY_CLUSTER
    cluster: str


@header
class SystemTopicsRequest:
    CODE: ClassVar = RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS


@header
class DeleteTopicInNameServerRequest:
    CODE: ClassVar = RequestCode.DELETE_TOPIC_IN_NAMESRV
    topic: str
    cluster_name: str | None = None


@header
class RegisterTopicRequest:
    """The body is a TopicRoute."""

    CODE: ClassVar = RequestCode.REGISTER_TOPIC_IN_NAMESRV
    topic: str


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


@header
class RegisterBrokerRequest:
    CODE: ClassVar = RequestCode.REGISTER_BROKER
    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: int
    heartbeat_timeout_millis: int | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = 0


@header
class RegisterBrokerAnswer:
    ha_server_addr: str | None = None
    master_addr: str | None = None


@header
class UnregisterBrokerRequest:
    CODE: ClassVar = RequestCode.UNREGISTER_BROKER
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


@header
class BrokerHeartbeatRequest:
    CODE: ClassVar = RequestCode.BROKER_HEARTBEAT
    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: int | None = None
    epoch: Int32 | None = None
    max_offset: int | None = None
    confirm_offset: int | None = None
    heartbeat_timeout_mills: int | None = None
    election_priority: Int32 | None = None


@header
class QueryVersionRequest:
    """The body is a DataVersion; the answer says whether the name server's is another."""

    CODE: ClassVar = RequestCode.QUERY_DATA_VERSION
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


@header
class QueryVersionAnswer:
    changed: bool


@header
class UnitTopicsRequest:
    CODE: ClassVar = RequestCode.GET_UNIT_TOPIC_LIST


@header
class UnitSubscribedTopicsRequest:
    CODE: ClassVar = RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST


@header
class UnitSubscribedPlainTopicsRequest:
    CODE: ClassVar = RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST


@header
class UpdateNameServerConfigRequest:
    """The body is properties text."""

    CODE: ClassVar = RequestCode.UPDATE_NAMESRV_CONFIG


@header
class NameServerConfigRequest:
    CODE: ClassVar = RequestCode.GET_NAMESRV_CONFIG
