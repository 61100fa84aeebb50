"""What members of broadcasting groups keep on their own disks, read from the files as a starting process reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from framework.core.offset_file import newest
from framework.model.queue import MessageQueue
from framework.testing.sim.disk import SimDisk
from framework.testing.swarm import broker_view
from framework.testing.swarm.recorder import OFFSETS_FILE

if TYPE_CHECKING:
    from framework.testing.swarm.cluster import Cluster


def saved_offsets(disk: SimDisk, group: str) -> dict[MessageQueue, int]:
    """Where the group would begin on this machine; nothing where it was never there."""
    files = {path: disk.read(path) for path in disk.paths() if path.endswith(OFFSETS_FILE) and f"/{group}." in path}
    saved, _ = newest(files, group)
    return dict(saved.offsets) if saved is not None else {}


def left(cluster: Cluster) -> Iterator[str]:
    """What a member of a broadcasting group has not finished and saved yet, a line each."""
    broker, history = cluster.broker.broker, cluster.history
    for group in sorted(history.broadcasting):
        for machine in cluster.apps:
            if broker is None or not machine.is_steady:
                continue
            saved = saved_offsets(machine.disk, group)
            for node in broker.nodes:
                for topic in sorted(history.topics.get(group, {cluster.workload.topic})):
                    for queue in broker_view.queues_of(node, topic):
                        at = saved.get(MessageQueue(topic, node.name, queue.number), 0)
                        if at < queue.end:
                            yield f"{machine.name} has {group} at {at} of {queue.end} of {topic}:{queue.number}"
