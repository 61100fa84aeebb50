"""What brokers and the disks of members have, read from their own state: what is stored, and what is not done yet.

It only reads. A running broker is asked directly, not over the wire: the answer must not depend on what is tested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from framework.broker.node import Node
from framework.broker.server import Broker
from framework.broker.store import delayed
from framework.broker.store.queues import Queue
from framework.core.offset_file import newest
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.model.reserved import DEAD_LETTER_PREFIX, PROGRESS_PREFIX, RETRY_PREFIX, dead_letter_topic
from framework.testing.sim.disk import SimDisk
from framework.testing.sim.machine import Machine
from framework.wire.stored import decode

READ_COUNT = 1000
READ_BYTES = 64 * 1024 * 1024
OFFSETS_FILE = ".offsets"
LISTED_MAX = 6


class Behind(NamedTuple):
    """A group that has not come to the end of a queue."""

    group: str
    queue: MessageQueue
    committed: int
    end: int

    def __str__(self) -> str:
        return f"{self.group} {self.queue} is at {self.committed} of {self.end}"


def queues_of(node: Node, topic: str) -> list[Queue]:
    """The topic's queues that ever got a message."""
    settings = node.rules.topics.get(topic)
    if settings is None:
        return []
    count = max(settings.read_queues, settings.write_queues)
    return [queue for number in range(count) if (queue := node.queue(topic, number)) is not None]


def messages_of(broker: Broker, topic: str) -> list[Message]:
    """All that the topic has, queue by queue."""
    return [
        message
        for node in broker.nodes
        for queue in queues_of(node, topic)
        for message in read(node, queue, MessageQueue(topic, node.name, queue.number))
    ]


def dead_messages(broker: Broker, group: str) -> list[Message]:
    """The dead letters of a group, oldest first."""
    return messages_of(broker, dead_letter_topic(group))


def ordinary(broker: Broker) -> list[Message]:
    """Every message of every topic that somebody made, oldest first: no retries, no dead letters, nothing of ours."""
    topics = {
        name
        for node in broker.nodes
        for name, _ in node.rules.topics.items()
        if not (node.rules.is_own(name) or name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX, PROGRESS_PREFIX)))
    }
    found = [message for topic in sorted(topics) for message in messages_of(broker, topic)]
    return sorted(found, key=lambda each: (each.stored_ms, each.offset_message_id))


def behind(broker: Broker, readers: Callable[[str], Iterable[str]]) -> Iterator[Behind]:
    """Who has not committed the end of a queue. `readers` answers the groups that a topic's messages are for."""
    for node in broker.nodes:
        for topic in [name for name, _ in node.rules.topics.items()]:
            if node.rules.is_own(topic) or topic.startswith((DEAD_LETTER_PREFIX, PROGRESS_PREFIX)):
                continue
            groups = list(readers(topic))
            for queue in queues_of(node, topic):
                for group in groups:
                    committed = node.offsets.get(group, topic, queue.number) or 0
                    if committed < queue.end:
                        yield Behind(group, MessageQueue(topic, node.name, queue.number), committed, queue.end)


def under_way(broker: Broker) -> Iterator[str]:
    """What will be there without anybody's doing, a line each."""
    if not broker.nodes:
        return
    store = broker.nodes[0].store
    if delayed.next_due_ms(store.database.writing) is not None:
        yield "messages wait for their delay"
    if store.writer.is_busy:  # a queue ends where it did until its writers have been told
        yield "a group of writes is under way"


def listed(lines: Iterable[str]) -> list[str]:
    """The first ones, and how many more there are."""
    found = list(lines)
    if len(found) > LISTED_MAX:
        found[LISTED_MAX:] = [f"and {len(found) - LISTED_MAX} more"]
    return found


def saved_offsets(disk: SimDisk, group: str) -> dict[MessageQueue, int]:
    """Where a broadcasting group would begin on this machine, as a starting process reads it; nothing where it was
    never there.
    """
    files = {path: disk.read(path) for path in disk.paths() if path.endswith(OFFSETS_FILE) and f"/{group}." in path}
    saved, _ = newest(files, group)
    return dict(saved.offsets) if saved is not None else {}


def unsaved(broker: Broker, machines: Iterable[Machine], group: str, topics: Iterable[str]) -> Iterator[str]:
    """What a member of a broadcasting group has not finished and saved yet, a line each."""
    topics = sorted(topics)
    for machine in machines:
        if not machine.is_steady:
            continue
        saved = saved_offsets(machine.disk, group)
        for node in broker.nodes:
            for topic in topics:
                for queue in queues_of(node, topic):
                    at = saved.get(MessageQueue(topic, node.name, queue.number), 0)
                    if at < queue.end:
                        yield f"{machine.name} has {group} at {at} of {queue.end} of {topic}:{queue.number}"


def read(node: Node, queue: Queue, name: MessageQueue) -> list[Message]:
    """All that one queue has."""
    found: list[Message] = []
    at = queue.low
    while at < queue.end:
        records, following = node.store.log.read(queue, at, count_max=READ_COUNT, bytes_max=READ_BYTES)
        found += decode(b"".join(records), name)
        assert following > at, f"{queue!r}: reading stands still at {at}"
        at = following
    return found
