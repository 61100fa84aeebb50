"""What the parts of one group share."""

from __future__ import annotations

from dataclasses import dataclass

from framework.client.cluster import Cluster
from framework.core.offsets import OffsetTable
from framework.model.queue import MessageQueue
from framework.net.task_tree import TaskTree
from framework.ports import World
from framework.runtime.group.plan import GroupPlan, Handling
from framework.runtime.reports import GroupReports
from framework.services.pool.run import MessageCounts
from framework.services.queue.pull import PullLoop


@dataclass(frozen=True, slots=True)
class GroupParts:
    """One per group."""

    plan: GroupPlan
    """As it is when the group is made; what may change while it runs is not read from here."""
    member: str
    world: World
    cluster: Cluster
    tree: TaskTree
    reports: GroupReports
    counts: MessageCounts
    offsets: OffsetTable
    owned: dict[MessageQueue, PullLoop]
    handlings: dict[str, Handling]
    """Topic -> how its messages are run; the retry topic is among them."""

    def taken_at_once(self, topic: str) -> int:
        """How many messages one call of the topic's handler takes."""
        handling = self.handlings.get(topic)
        return 1 if handling is None or handling.batching is None else handling.batching.count
