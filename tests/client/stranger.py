"""Somebody who is no member of a group, and may read and write all topics."""

from __future__ import annotations

from framework.client.cluster import Cluster
from framework.client.options import ClusterOptions
from framework.core.ranges import Finished, ProgressRecord, mark_of
from framework.hooks.builtin.progress.progress_topic import TopicStore
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.model.reserved import TOOLS_GROUP
from framework.net.real_world import real_world
from framework.runtime.group.progressing import _Means


async def says_all_is_done(name_server: str, group: str, queue: MessageQueue, begin: int, end: int) -> None:
    """Write to the group's topic what a member would that has ended all messages but the one at `begin`."""
    cluster = Cluster(real_world(), ClusterOptions(name_servers=(name_server,), client_id="stranger"))
    try:
        await cluster.routes.queues(queue.topic)
        there: list[Message] = []
        while begin + len(there) < end:
            there += await cluster.brokers.peek(TOOLS_GROUP, queue, begin + len(there), end - begin - len(there))
        finished = Finished(mark_of(there[0]), ((begin + 1, end),), mark_of(there[-1]))
        record = ProgressRecord(queue, finished=finished, owner="stranger", is_released=True)
        await TopicStore().open(_Means(group, "/nowhere", cluster, real_world())).take(queue, record.encode())
    finally:
        await cluster.close()
