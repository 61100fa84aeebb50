"""What a name server would know: routes of the logical brokers behind it, and values by namespace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from framework.broker.answers import Answer, Refusal, ok, when_saved
from framework.broker.node import Node
from framework.broker.request import Request
from framework.broker.store.topics import PERM_READ_WRITE, PERM_WRITE, Topic
from framework.errors import bare
from framework.model.reserved import AUTO_CREATE_TOPIC
from framework.wire.bodies.config import KeyValues
from framework.wire.bodies.route import MASTER, BrokerData, ClusterInfo, QueueData, TopicList, TopicRoute
from framework.wire.codes import ResponseCode
from framework.wire.fields import to_fields
from framework.wire.requests.route import (
    ORDER_TOPIC_CONFIG,
    AddWritePermissionAnswer,
    AddWritePermissionRequest,
    DeleteKeyRequest,
    GetKeyAnswer,
    GetKeyRequest,
    KeysOfNamespaceRequest,
    PutKeyRequest,
    RouteRequest,
    TopicsByClusterRequest,
    WipeWritePermissionAnswer,
    WipeWritePermissionRequest,
)

_STANDARD_JSON_VERSION = 401  # V4_9_4: from here on clients read quoted keys; older ones only what fastjson writes


def route_info(request: Request) -> Answer:
    """GET_ROUTEINFO_BY_TOPIC (105): the brokers and queues of a topic; 17 if no broker has it.

    Differences: every port answers, for every logical broker of the process. A new topic is routable at once, where a
    name server hears of it with the broker's registration. orderTopicConf is shown if 100 has set one, without a switch
    for it.
    """
    header = request.header(RouteRequest)
    route = route_of(request.node.neighbours(), header.topic)
    if route is None:
        raise Refusal(
            ResponseCode.TOPIC_NOT_EXIST,
            f"No topic route info in name server for the topic: {bare(header.topic)}",
        )
    is_standard = request.command.version >= _STANDARD_JSON_VERSION or header.accept_standard_json_only is True
    return ok(body=route.encode(quote_integer_keys=is_standard))


def cluster_info(request: Request) -> Answer:
    """GET_BROKER_CLUSTER_INFO (106): every logical broker with its address, by cluster.

    Differences: every port answers, for the whole process.
    """
    # Always in Java's dialect: the real name server has no other form of this answer.
    return ok(body=_cluster_of(request.node.neighbours()).encode(quote_integer_keys=False))


def all_topics(request: Request) -> Answer:
    """GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206): the names of all topics of all logical brokers."""
    return ok(body=TopicList(topics=tuple(_topics_of(request.node.neighbours()))).encode())


def topics_by_cluster(request: Request) -> Answer:
    """GET_TOPICS_BY_CLUSTER (224): the names of a cluster's topics."""
    header = request.header(TopicsByClusterRequest)
    nodes = [node for node in request.node.neighbours() if node.settings.cluster == header.cluster]
    return ok(body=TopicList(topics=tuple(_topics_of(nodes))).encode())


def system_topics_of_cluster(request: Request) -> Answer:
    """GET_SYSTEM_TOPIC_LIST_FROM_NS (304): the topics named after clusters and brokers, and one broker to ask for
    more.
    """
    cluster = _cluster_of(request.node.neighbours())
    return ok(body=TopicList(topics=(*cluster.clusters, *cluster.brokers), broker_addr=request.node.address).encode())


def wipe_write_perm(request: Request) -> Answer:
    """WIPE_WRITE_PERM_OF_BROKER (205): routes show none of a broker's topics as writable; answers their number.

    Differences: it holds until the other of 205 and 327, or a restart. RocketMQ's name server forgets it when the
    broker registers a changed topic, and 327 makes every topic 6, also a topic that was never writable. The broker
    itself stores what reaches it, as RocketMQ's does.
    """
    header = request.header(WipeWritePermissionRequest)
    count = _wipe(request.node.neighbours(), header.broker_name, is_wiped=True)
    return ok(to_fields(WipeWritePermissionAnswer(wipe_topic_count=count)))


def add_write_perm(request: Request) -> Answer:
    """ADD_WRITE_PERM_OF_BROKER (327): routes show a broker's topics as they are again; answers their number.

    Differences: those of 205.
    """
    header = request.header(AddWritePermissionRequest)
    count = _wipe(request.node.neighbours(), header.broker_name, is_wiped=False)
    return ok(to_fields(AddWritePermissionAnswer(add_topic_count=count)))


def delete_topic_route(_: Request) -> Answer:
    """DELETE_TOPIC_IN_NAMESRV (216): forget a topic's route.

    Differences: routes are read from the brokers' topics, so a route goes with 215, and there is nothing left to do
    here.
    """
    return ok()


_VALUES_MAX = 1000


def put_value(request: Request) -> Answer:
    """PUT_KV_CONFIG (100): a value in a namespace of the name server. ORDER_TOPIC_CONFIG is shown in routes.

    Differences: RocketMQ shows ORDER_TOPIC_CONFIG only where orderMessageEnable is set. A namespace is shared by all
    logical brokers. At most 1,000 values.
    """
    header = request.header(PutKeyRequest)
    values = request.node.store.values
    scope = _key_scope(header.namespace)
    if len(values) >= _VALUES_MAX and values.get(scope, header.key) is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the quota of {_VALUES_MAX} values is used up")
    values.put(scope, header.key, header.value)
    return when_saved()


def get_value(request: Request) -> Answer:
    """GET_KV_CONFIG (101): a value of a namespace of the name server, or 22."""
    header = request.header(GetKeyRequest)
    value = request.node.store.values.get(_key_scope(header.namespace), header.key)
    if value is None:
        raise Refusal(
            ResponseCode.QUERY_NOT_FOUND,
            f"No config item, Namespace: {bare(header.namespace)} Key: {bare(header.key)}",
        )
    return ok(to_fields(GetKeyAnswer(value=value)))


def delete_value(request: Request) -> Answer:
    """DELETE_KV_CONFIG (102): drop a value of a namespace; 0 also where there is none."""
    header = request.header(DeleteKeyRequest)
    request.node.store.values.drop(_key_scope(header.namespace), header.key)
    return when_saved()


def values_of_namespace(request: Request) -> Answer:
    """GET_KVLIST_BY_NAMESPACE (219): all values of a namespace, or 22."""
    header = request.header(KeysOfNamespaceRequest)
    values = request.node.store.values.of_scope(_key_scope(header.namespace))
    if not values:
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {bare(header.namespace)}")
    return ok(body=KeyValues(table=values).encode())


def route_of(nodes: Sequence[Node], topic: str) -> TopicRoute | None:
    """Which brokers have the topic, with how many queues; None where no broker has it. Brokers that make no topics
    have none that others are made from.
    """
    queues: list[QueueData] = []
    brokers: list[BrokerData] = []
    for node in nodes:
        found = node.rules.topics.get(topic)
        if found is not None and (topic != AUTO_CREATE_TOPIC or node.switches.creates_topics):
            queues.append(
                QueueData(
                    broker_name=node.name,
                    read_queue_nums=found.read_queues,
                    write_queue_nums=found.write_queues,
                    perm=permission_of(node, found),
                    topic_sys_flag=found.sys_flag,
                )
            )
            brokers.append(_broker(node))
    if not queues:
        return None
    order = nodes[0].store.values.get(_key_scope(ORDER_TOPIC_CONFIG), topic)
    return TopicRoute(queues=tuple(queues), brokers=tuple(brokers), order_conf=order)


def _topics_of(nodes: Iterable[Node]) -> list[str]:
    """The topics of some brokers, each once."""
    return list(dict.fromkeys(name for node in nodes for name in node.rules.topics.keys()))  # noqa: SIM118


def permission_of(node: Node, topic: Topic) -> int:
    """A topic's permission as the name server shows it: what the broker allows, and what was wiped."""
    perm = topic.perm if node.switches.permission == PERM_READ_WRITE else topic.perm & node.switches.permission
    return perm & ~PERM_WRITE if node.is_write_wiped else perm


def _wipe(nodes: Iterable[Node], broker: str, *, is_wiped: bool) -> int:
    """Show a broker's topics as not writable, or as they are again; their number."""
    count = 0
    for node in nodes:
        if node.name == broker:
            node.is_write_wiped = is_wiped
            count += len(node.rules.topics)
    return count


def _key_scope(namespace: str) -> str:
    """Where a namespace's keys are kept."""
    return f"names:{namespace}"


def _cluster_of(nodes: Iterable[Node]) -> ClusterInfo:
    """All logical brokers, by cluster."""
    brokers: dict[str, BrokerData] = {}
    clusters: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        brokers[node.name] = _broker(node)
        clusters[node.settings.cluster] = (*clusters.get(node.settings.cluster, ()), node.name)
    return ClusterInfo(brokers=brokers, clusters=clusters)


def _broker(node: Node) -> BrokerData:
    return BrokerData(cluster=node.settings.cluster, broker_name=node.name, broker_addrs={MASTER: node.address})
