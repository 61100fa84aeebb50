"""Routes of the one-process cluster: what a name server would know of the logical brokers behind it. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from framework.broker.node import Node
from framework.broker.store.topics import PERM_READ_WRITE, PERM_WRITE, Topic
from framework.model.reserved import AUTO_CREATE_TOPIC
from framework.wire.bodies.route import MASTER, BrokerData, ClusterInfo, QueueData, TopicRoute
from framework.wire.requests.route import ORDER_TOPIC_CONFIG


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
    order = nodes[0].store.values.get(key_scope(ORDER_TOPIC_CONFIG), topic)
    return TopicRoute(queues=tuple(queues), brokers=tuple(brokers), order_conf=order)


def topics_of(nodes: Iterable[Node]) -> list[str]:
    """The topics of some brokers, each once."""
    return list(dict.fromkeys(name for node in nodes for name in node.rules.topics.keys()))  # noqa: SIM118


def permission_of(node: Node, topic: Topic) -> int:
    """A topic's permission as the name server shows it: what the broker allows, and what was wiped."""
    perm = topic.perm if node.switches.permission == PERM_READ_WRITE else topic.perm & node.switches.permission
    return perm & ~PERM_WRITE if node.is_write_wiped else perm


def wipe(nodes: Iterable[Node], broker: str, *, is_wiped: bool) -> int:
    """Show a broker's topics as not writable, or as they are again; their number."""
    count = 0
    for node in nodes:
        if node.name == broker:
            node.is_write_wiped = is_wiped
            count += len(node.rules.topics)
    return count


def key_scope(namespace: str) -> str:
    """Where a namespace's keys are kept."""
    return f"names:{namespace}"


def cluster_of(nodes: Iterable[Node]) -> ClusterInfo:
    """All logical brokers, by cluster."""
    brokers: dict[str, BrokerData] = {}
    clusters: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        brokers[node.name] = _broker(node)
        clusters[node.settings.cluster] = (*clusters.get(node.settings.cluster, ()), node.name)
    return ClusterInfo(brokers=brokers, clusters=clusters)


def _broker(node: Node) -> BrokerData:
    return BrokerData(cluster=node.settings.cluster, broker_name=node.name, broker_addrs={MASTER: node.address})
