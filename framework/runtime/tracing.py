"""The traces of an application's groups, on their way to the cluster. Wiring only."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from framework.client.cluster import Cluster
from framework.client.producer import Producer
from framework.client.tracing import SEND_TIMEOUT, producer_group
from framework.net.task_tree import TaskTree
from framework.runtime.group.plan import GroupPlan
from framework.services.supervise import supervise


def start_traces(plans: Sequence[GroupPlan], cluster: Cluster, tree: TaskTree) -> None:
    """Begin to send what the groups' handlers tell."""
    for plan in plans:
        if plan.trace is None:
            continue
        group = producer_group(plan.name, "CONSUME-1")
        # As the Java client's: what is told of all tenants stands in one topic.
        producer = Producer(cluster=cluster, group=group, timeout=SEND_TIMEOUT, namespace="", hooks=False)
        run = partial(plan.trace.tracer.run, producer.send)
        supervise(tree, f"trace {plan.name}", run, cluster.world.chance)


async def close_traces(plans: Sequence[GroupPlan]) -> None:
    """Send the last of it: handlers have ended, and the cluster is still connected."""
    for plan in plans:
        if plan.trace is not None:
            await plan.trace.tracer.close()
