"""What a broker has, read from its own state: for checkers, and to find out whether a run is drained.

It only reads. A running broker is asked directly, not over the wire: the answer must not depend on what is tested.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework.broker.node import Node
from framework.broker.server import Broker
from framework.broker.store import delayed
from framework.broker.store.queues import Queue
from framework.model.message import ORIGIN_MESSAGE_ID, Message
from framework.model.queue import MessageQueue
from framework.model.reserved import (
    DEAD_LETTER_PREFIX,
    HALF_TOPIC,
    PROGRESS_PREFIX,
    RETRY_PREFIX,
    dead_letter_topic,
    pop_retry_topic,
    retry_topic,
)
from framework.testing.sim.world import WALL_CLOCK_START_MS
from framework.testing.swarm.facts import BY_A_MEMBER
from framework.testing.swarm.history import History, place_of
from framework.testing.swarm.ways.loading import RECORDS
from framework.wire.requests.copies import RECONSUME_TIME
from framework.wire.stored import decode

READ_COUNT = 1000
READ_BYTES = 64 * 1024 * 1024
LISTED_MAX = 6


def queues_of(node: Node, topic: str) -> list[Queue]:
    """The topic's queues that ever got a message."""
    settings = node.rules.topics.get(topic)
    if settings is None:
        return []
    count = max(settings.read_queues, settings.write_queues)
    return [queue for number in range(count) if (queue := node.queue(topic, number)) is not None]


def end_of(broker: Broker, queue: MessageQueue) -> int:
    """The offset that its next message gets."""
    found = [node.queue(queue.topic, queue.number) for node in broker.nodes if node.name == queue.broker]
    return next((each.end for each in found if each is not None), 0)


def stored_offset(broker: Broker, group: str, queue: str) -> int | None:
    """What is stored of a queue that is called so; None for nothing."""
    place = place_of(queue)
    found = [node.offsets.get(group, place.topic, place.number) for node in broker.nodes if node.name == place.broker]
    return found[0] if found else None


def contents(broker: Broker, topic: str) -> dict[MessageQueue, dict[int, str]]:
    """Queue -> offset -> message id, of everything the topic has."""
    found: dict[MessageQueue, dict[int, str]] = {}
    for node in broker.nodes:
        for queue in queues_of(node, topic):
            name = MessageQueue(topic, node.name, queue.number)
            found[name] = {message.queue_offset: message.message_id for message in _messages(node, queue, name)}
    return found


def dead_letters(broker: Broker, groups: list[str]) -> set[tuple[str, str]]:
    """(group, message id) of every dead letter."""
    return {
        (group, message_id)
        for group in groups
        for messages in contents(broker, dead_letter_topic(group)).values()
        for message_id in messages.values()
    }


def dead_messages(broker: Broker, group: str) -> list[Message]:
    """The dead letters themselves, oldest first."""
    return _all_of(broker, dead_letter_topic(group))


def ordinary(broker: Broker) -> list[Message]:
    """Every message of every topic that somebody made, oldest first: no retries, no dead letters, nothing of ours."""
    topics = {
        name
        for node in broker.nodes
        for name, _ in node.rules.topics.items()
        if not (node.rules.is_own(name) or name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX, PROGRESS_PREFIX)))
    }
    found = [message for topic in sorted(topics) for message in _all_of(broker, topic)]
    return sorted(found, key=lambda each: (each.stored_ms, each.offset_message_id))


def copies(broker: Broker, groups: list[str]) -> list[tuple[str, str, int, str]]:
    """(group, message copied, which retry, by whom) of every copy that was made of a failed message: by a broker that
    was asked to send back, or by a member that sent it as a message.
    """
    return [
        (
            group, message.properties.get(ORIGIN_MESSAGE_ID, message.message_id), message.attempt,
            BY_A_MEMBER if RECONSUME_TIME in message.properties else message.queue.broker,
        )
        for group in groups
        for topic in (retry_topic(group), dead_letter_topic(group))
        for message in _all_of(broker, topic)
    ]  # fmt: skip


def _all_of(broker: Broker, topic: str) -> list[Message]:
    return [
        message
        for node in broker.nodes
        for queue in queues_of(node, topic)
        for message in _messages(node, queue, MessageQueue(topic, node.name, queue.number))
    ]


def look_back(broker: Broker, history: History, topics: Sequence[str], skew_ms: int) -> None:
    """Tell the history what a broker has at the end of a run, whose wall clock was off by so much."""
    groups = history.groups
    history.stored = {queue: ids for topic in topics for queue, ids in contents(broker, topic).items()}
    history.copies = copies(broker, groups)
    history.dead_letters = dead_letters(broker, groups)
    began_ms = WALL_CLOCK_START_MS + skew_ms
    for group in sorted(history.popping):
        history.pop_dead += [(group, each.message_id) for each in dead_messages(broker, group)]
        history.pop_retries += [
            (group, each.message_id, each.attempt, (each.stored_ms - began_ms) / 1000)
            for topic in topics
            for each in _all_of(broker, pop_retry_topic(group, topic))
        ]
    history.copied_of = {
        each.properties.get(ORIGIN_MESSAGE_ID, each.message_id): each.message_id
        for group in groups
        for topic in (retry_topic(group), dead_letter_topic(group))
        for each in _all_of(broker, topic)
    }
    _look_at_desks(broker, history, topics)
    for group, tags in history.wanted.items():
        for topic in topics:
            for message in _all_of(broker, topic):
                if message.tags not in tags:
                    history.unwanted.setdefault(group, set()).add(message.message_id)
                    history.passed_by.setdefault((group, str(message.queue)), set()).add(message.queue_offset)
    history.fired = [
        (group, message.message_id, message.attempt, (message.stored_ms - began_ms) / 1000)
        for group in groups
        for message in _all_of(broker, retry_topic(group))
        if RECONSUME_TIME not in message.properties
    ]
    if history.skips:
        for topic in topics:
            for message in _all_of(broker, topic):
                at = (message.stored_ms - began_ms) / 1000
                history.stored_at.setdefault(str(message.queue), {})[message.queue_offset] = at


def _look_at_desks(broker: Broker, history: History, topics: Sequence[str]) -> None:
    """What is there of transactions and lots."""
    for message in (each for topic in topics for each in _all_of(broker, topic)):
        for prefix, found in (("deal-", history.deals), ("lot-", history.loads)):
            if message.body.startswith(prefix.encode()):
                found.setdefault(message.body.decode(), []).append(message.message_id)
    for half in _all_of(broker, HALF_TOPIC):
        history.half_messages[half.body.decode()] = history.half_messages.get(half.body.decode(), 0) + 1


def left(broker: Broker, history: History) -> list[str]:
    """What is not finished and committed yet, a line each; empty when drained."""
    lines = []
    for node in broker.nodes:
        for topic in [name for name, _ in node.rules.topics.items()]:
            if node.rules.is_own(topic) or topic.startswith((DEAD_LETTER_PREFIX, PROGRESS_PREFIX, RECORDS)):
                continue
            readers = [
                group
                for group in history.groups
                if group not in history.broadcasting
                and (topic == retry_topic(group) if topic.startswith(RETRY_PREFIX) else history.reads(group, topic))
            ]
            readers += [group for group in history.popping if is_popped_by(group, topic, history)]
            for queue in queues_of(node, topic):
                for group in readers:
                    committed = node.offsets.get(group, topic, queue.number) or 0
                    name = f"{topic}@{node.name}:{queue.number}"
                    if committed < queue.end and not history.is_nobodys(group, name):
                        lines.append(f"{group} {name} is at {committed} of {queue.end}")
    if history.popping and (held := popped_count(broker)):
        lines.append(f"{held} popped messages are held")
    if broker.nodes and delayed.next_due_ms(broker.nodes[0].store.database.writing) is not None:
        lines.append("messages wait for their delay")
    if broker.nodes and broker.nodes[0].store.database.writing.in_transaction:
        lines.append("a group of writes is under way")
    if len(lines) > LISTED_MAX:
        lines[LISTED_MAX:] = [f"and {len(lines) - LISTED_MAX} more"]
    return lines


def is_popped_by(group: str, topic: str, history: History) -> bool:
    """Whether this group, which pops, has to come to the end of the topic."""
    if topic.startswith(RETRY_PREFIX):
        return topic.startswith(retry_topic(group))
    return history.reads(group, topic)


def popped_count(broker: Broker) -> int:
    """How many messages some member holds, or has held until it ended."""
    (count,) = broker.nodes[0].store.database.writing.execute("SELECT count(*) FROM popped").fetchone()
    return int(count)


def _messages(node: Node, queue: Queue, name: MessageQueue) -> list[Message]:
    found: list[Message] = []
    at = queue.low
    while at < queue.end:
        records, following = node.store.log.read(queue, at, count_max=READ_COUNT, bytes_max=READ_BYTES)
        found += decode(b"".join(records), name)
        assert following > at, f"{queue!r}: reading stands still at {at}"
        at = following
    return found
