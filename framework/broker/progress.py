"""How far groups have come, reckoned from the queues, the offsets and what was given out."""

from __future__ import annotations

from framework.broker.node import Node
from framework.broker.store.queues import Queue
from framework.broker.store.topics import Topic
from framework.model.queue import MessageQueue
from framework.wire.bodies.progress import ConsumeStats, OffsetWrapper


def topics_of(node: Node, group: str) -> list[str]:
    """What a group reads, or ever read: where members are online, what they want."""
    found = node.members.find(group)
    if found is not None and found.wanted:
        return list(found.wanted)
    return node.offsets.topics_of(group)


def groups_of(node: Node, topic: str) -> list[str]:
    """Who reads a topic, or ever read it."""
    online = [group.name for group in node.members.groups() if topic in group.wanted]
    return list(dict.fromkeys(online + node.offsets.groups_of(topic)))


def numbers_of(topic: Topic) -> range:
    """A topic's queues, also those that are only written to, or only read."""
    return range(max(topic.read_queues, topic.write_queues))


def stats(node: Node, group: str, topics: list[str]) -> ConsumeStats:
    """A group's progress in these topics."""
    offsets: dict[MessageQueue, OffsetWrapper] = {}
    rate = 0.0
    for name in topics:
        topic = node.rules.topics.get(name)
        if topic is None:
            continue
        given = node.rates.get((group, name))
        rate += 0.0 if given is None else given.per_second(node.timers.time())
        for number in numbers_of(topic):
            offsets[MessageQueue(name, node.name, number)] = _queue_progress(node, group, name, number)
    return ConsumeStats(offsets=offsets, consume_tps=rate)


def _queue_progress(node: Node, group: str, topic: str, number: int) -> OffsetWrapper:
    queue = node.queue(topic, number)
    committed = node.offsets.get(group, topic, number)
    end = 0 if queue is None else queue.end
    start = committed if committed is not None else 0
    return OffsetWrapper(
        broker_offset=end,
        consumer_offset=start,
        pull_offset=max(node.pulled.get((group, topic, number), 0), start),
        last_timestamp=stored_ms(node, queue, start - 1) or 0,
    )


def stored_ms(node: Node, queue: Queue | None, offset: int) -> int | None:
    return None if queue is None else node.store.log.stored_ms(queue, offset)


def stored_within(node: Node, topic: str, window_ms: int) -> int:
    """How many messages of a topic came in the last so many milliseconds."""
    since_ms = node.world.clock.now_ms() - window_ms
    return sum(
        queue.end - max(node.store.log.offset_at(queue, since_ms), queue.low)
        for queue in node.store.queues.of_topic(node.name, topic)
    )
