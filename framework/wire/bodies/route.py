"""Where topics live: a topic's route, the whole cluster, lists of topics."""

from __future__ import annotations

from collections.abc import Mapping

from framework.wire.bodies.shape import Body
from framework.wire.fields import Int32, wire

MASTER = 0
PERM_WRITE = 2
PERM_READ = 4


class QueueData(Body):
    """One broker's share of a topic: read queues 0 to n - 1, and likewise write queues."""

    broker_name: str
    read_queue_nums: Int32 = 0
    write_queue_nums: Int32 = 0
    perm: Int32 = 0
    topic_sys_flag: Int32 = 0


class BrokerData(Body):
    """A broker's replicas: id (0 is the master) -> `ip:port`."""

    broker_name: str
    broker_addrs: Mapping[int, str] = wire("brokerAddrs", default_factory=dict)
    cluster: str | None = None
    zone_name: str | None = None
    enable_acting_master: bool = False


class TopicRoute(Body):
    """The answer to RouteRequest. Nothing in it is checked beyond its types: the client has limits of its own."""

    queues: tuple[QueueData, ...] = wire("queueDatas", default=())
    brokers: tuple[BrokerData, ...] = wire("brokerDatas", default=())
    order_conf: str | None = wire("orderTopicConf", default=None)
    filter_servers: Mapping[str, tuple[str, ...]] = wire("filterServerTable", default_factory=dict)


class ClusterInfo(Body):
    """All brokers, and the clusters they make up. Always in Java's dialect: its integer keys have no quotes."""

    brokers: Mapping[str, BrokerData] = wire("brokerAddrTable", default_factory=dict)
    clusters: Mapping[str, tuple[str, ...]] = wire("clusterAddrTable", default_factory=dict)


class TopicList(Body):
    topics: tuple[str, ...] = wire("topicList", default=())
    broker_addr: str | None = None


class GroupList(Body):
    groups: tuple[str, ...] = wire("groupList", default=())
