"""Which member owns which queue, as members and brokers see it at this moment. It only reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.model.queue import MessageQueue
from tests.simulation.history import Ownership

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster


def picture(cluster: Cluster) -> tuple[tuple[str, ...], dict[tuple[str, str], Ownership]]:
    """Who is up, and of each group and each of its topics' queues who believes to own it."""
    up = {
        machine.node.name: machine.app.snapshot()
        for machine in cluster.apps
        if machine.is_steady and machine.app is not None and machine.node is not None
    }
    broker = cluster.broker.broker
    queues = [
        MessageQueue(topic, node.name, number)
        for node in (broker.nodes if broker is not None else ())
        for topic in cluster.workload.topics
        if (settings := node.rules.topics.get(topic)) is not None
        for number in range(settings.read_queues)
    ]
    owners: dict[tuple[str, str], Ownership] = {}
    for group in cluster.history.groups:
        for queue in queues:
            if not cluster.history.reads(group, queue.topic):
                continue
            who = tuple(
                name
                for name, snapshot in up.items()
                for each in snapshot.groups
                if each.group == group
                for owned in each.queues
                if owned.place == queue and not owned.is_retiring
            )
            holder = cluster.holder_of(group, queue) if group in cluster.history.orderly else ""
            owners[group, str(queue)] = Ownership(who, holder)
    cluster.history.skipped = {
        (name, each.group): each.skipped for name, snapshot in up.items() for each in snapshot.groups
    }
    return tuple(up), owners
