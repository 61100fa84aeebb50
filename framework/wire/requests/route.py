"""Requests to a name server: routes, topics, permissions, its key-value settings."""

from __future__ import annotations

from framework.wire.codes import RequestCode
from framework.wire.fields import Header, Int32, RequestHeader

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"


class RouteRequest(RequestHeader, code=RequestCode.GET_ROUTEINFO_BY_TOPIC):
    """Answered with a TopicRoute, or 17. Asking for standard JSON costs nothing and spares us Java's dialect."""

    topic: str
    accept_standard_json_only: bool | None = None


class TopicListRequest(RequestHeader, code=RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER): ...


class ClusterInfoRequest(RequestHeader, code=RequestCode.GET_BROKER_CLUSTER_INFO):
    """Every broker that the name server knows."""


class TopicsByClusterRequest(RequestHeader, code=RequestCode.GET_TOPICS_BY_CLUSTER):
    cluster: str


class SystemTopicsRequest(RequestHeader, code=RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS): ...


class PutKeyRequest(RequestHeader, code=RequestCode.PUT_KV_CONFIG):
    namespace: str
    key: str
    value: str


class GetKeyRequest(RequestHeader, code=RequestCode.GET_KV_CONFIG):
    """Answered 22 where the key is not there."""

    namespace: str
    key: str


class GetKeyAnswer(Header):
    value: str | None = None


class DeleteKeyRequest(RequestHeader, code=RequestCode.DELETE_KV_CONFIG):
    namespace: str
    key: str


class KeysOfNamespaceRequest(RequestHeader, code=RequestCode.GET_KVLIST_BY_NAMESPACE):
    namespace: str


class WipeWritePermissionRequest(RequestHeader, code=RequestCode.WIPE_WRITE_PERM_OF_BROKER):
    broker_name: str


class WipeWritePermissionAnswer(Header):
    wipe_topic_count: Int32


class AddWritePermissionRequest(RequestHeader, code=RequestCode.ADD_WRITE_PERM_OF_BROKER):
    broker_name: str


class AddWritePermissionAnswer(Header):
    add_topic_count: Int32
