"""What administrators and operators do to a topic in use: permissions, queues, resets, deletion.

Each is a strike of a fault kind in `kinds.py`. Queues that are taken away come back, because messages are in them.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

from framework.broker.store.topics import PERM_READ, PERM_READ_WRITE
from framework.model.queue import MessageQueue
from framework.wire.fields import RequestHeader
from framework.wire.requests.admin import DeleteTopicRequest, ResetOffsetRequest, UpdateTopicRequest
from tests.simulation.faults.nemesis import Nemesis, Struck

QUEUES_MAX = 8
REMADE_MAX = 3
"""In a run; after each, what was sent before is out of question, and a run of nothing else would prove nothing."""


def wipe_write_permission(nemesis: Nemesis) -> Struck:
    seconds = nemesis.chance.between(0.5, 5.0)
    if not _set_permission(nemesis, PERM_READ):
        return None
    nemesis.for_a_while(seconds, partial(_writable_again, nemesis))
    return "broker", f"the topic may not be written to for {seconds:.1f}s"


def _writable_again(nemesis: Nemesis) -> None:
    _set_permission(nemesis, PERM_READ_WRITE)


def _set_permission(nemesis: Nemesis, permission: int) -> bool:
    for node in nemesis.logical_brokers:
        topic = node.rules.topics.get(nemesis.cluster.workload.topic)
        if topic is not None:
            node.rules.add(replace(topic, perm=permission))
    return nemesis.cluster.broker.is_alive


def more_queues(nemesis: Nemesis) -> Struck:
    grown = _resize(nemesis, 1)
    nemesis.queues_most = max(nemesis.queues_most, grown)
    return ("broker", f"the topic has {grown} queues now") if grown else None


def fewer_queues(nemesis: Nemesis) -> Struck:
    """One queue is not there for a while, with what it holds."""
    seconds = nemesis.chance.between(0.5, 8.0)
    shrunk = _resize(nemesis, -1)
    if not shrunk:
        return None
    nemesis.for_a_while(seconds, partial(_grow_back, nemesis))
    return "broker", f"the topic has {shrunk} queues for {seconds:.1f}s"


def _grow_back(nemesis: Nemesis) -> None:
    _resize(nemesis, 1)


def _resize(nemesis: Nemesis, step: int) -> int:
    """How many queues there are now; 0 where nothing was changed."""
    changed = 0
    for node in nemesis.logical_brokers:
        topic = node.rules.topics.get(nemesis.cluster.workload.topic)
        if topic is not None and 1 <= topic.read_queues + step <= QUEUES_MAX:
            changed = topic.read_queues + step
            node.rules.add(replace(topic, read_queues=changed, write_queues=changed))
    return changed


def reset_offsets(nemesis: Nemesis) -> Struck:
    """One queue of a group goes back to where it has been; never ahead, which would lose messages by order."""
    chance, cluster = nemesis.chance, nemesis.cluster
    if not cluster.history.groups:
        return None
    group, draw, share = chance.pick(cluster.history.groups), chance.random(), chance.random()
    topic = cluster.workload.topic
    committed = [
        (MessageQueue(topic, node.name, number), offset)
        for node in nemesis.logical_brokers
        if (settings := node.rules.topics.get(topic)) is not None
        for number in range(settings.read_queues)
        if (offset := node.offsets.get(group, topic, number))
    ]
    if not committed:
        return None
    queue, reached = committed[int(draw * len(committed))]
    offset = int(reached * share)
    header = ResetOffsetRequest(topic=topic, group=group, timestamp=0, queue_id=queue.number, offset=offset)
    asked = nemesis.administrator.begin(partial(_ask, nemesis, header, queue.broker))
    if not asked:
        return None
    cluster.recorder.reset(group, queue, offset)
    return group, f"an administrator resets {queue} from {reached} to {offset}", group


async def _ask(nemesis: Nemesis, header: RequestHeader, broker: str) -> None:
    await nemesis.administrator.ask(header, broker=broker)


def remake_topic(nemesis: Nemesis) -> Struck:
    seconds = nemesis.chance.between(0.0, 4.0)
    if nemesis.struck["topic-remade"] >= REMADE_MAX:
        return None
    if not nemesis.logical_brokers or not nemesis.administrator.begin(partial(_remake, nemesis, seconds)):
        return None
    return "the topic", f"deleted with all it had, made again {seconds:.1f}s later"


async def _remake(nemesis: Nemesis, seconds: float) -> None:
    cluster, administrator = nemesis.cluster, nemesis.administrator
    name, queues = cluster.workload.topic, nemesis.queues_most
    brokers = [node.name for node in nemesis.logical_brokers]
    cluster.recorder.remade(name)
    for broker in brokers:
        # What was refused is not remade, and a checker that forgot a life would accuse the next.
        await administrator.insist(DeleteTopicRequest(topic=name), broker=broker)
    cluster.recorder.remade(name)
    await asyncio.sleep(seconds)
    again = UpdateTopicRequest(
        topic=name, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues, perm=PERM_READ_WRITE
    )
    for broker in brokers:
        await administrator.ask(again, broker=broker)
