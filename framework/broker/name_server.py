"""Routes of the one-process cluster: what a name server would know of the logical brokers behind it. Values only."""

from __future__ import annotations

from collections.abc import Iterable

from framework.broker.node import Node
from framework.wire.bodies.route import MASTER, BrokerData, ClusterInfo, QueueData, TopicRoute


def route_of(nodes: Iterable[Node], topic: str) -> TopicRoute | None:
    """Which brokers have the topic, with how many queues; None where no broker has it."""
    queues: list[QueueData] = []
    brokers: list[BrokerData] = []
    for node in nodes:
        found = node.rules.topics.get(topic)
        if found is not None:
            queues.append(
                QueueData(
                    broker_name=node.name,
                    read_queue_nums=found.read_queues,
                    write_queue_nums=found.write_queues,
                    perm=found.perm,
                    topic_sys_flag=found.sys_flag,
                )
            )
            brokers.append(_broker(node))
    return TopicRoute(queues=tuple(queues), brokers=tuple(brokers)) if queues else None


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
