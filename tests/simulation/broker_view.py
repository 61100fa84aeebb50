"""What a broker has, for checkers and to find out whether a run is drained: read as `testing/contents.py` does."""

from __future__ import annotations

from collections.abc import Sequence

from framework.broker.server import Broker
from framework.model.message import ORIGIN_MESSAGE_ID
from framework.model.queue import MessageQueue
from framework.model.reserved import HALF_TOPIC, RETRY_PREFIX, dead_letter_topic, pop_retry_topic, retry_topic
from framework.testing.contents import behind, dead_messages, listed, messages_of, queues_of, read, under_way
from framework.testing.sim.world import WALL_CLOCK_START_MS
from framework.wire.requests.copies import RECONSUME_TIME
from tests.simulation.facts import BY_A_MEMBER
from tests.simulation.history import History, place_of
from tests.simulation.ways.loading import RECORDS


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
            found[name] = {message.queue_offset: message.message_id for message in read(node, queue, name)}
    return found


def dead_letters(broker: Broker, groups: list[str]) -> set[tuple[str, str]]:
    """(group, message id) of every dead letter."""
    return {
        (group, message_id)
        for group in groups
        for messages in contents(broker, dead_letter_topic(group)).values()
        for message_id in messages.values()
    }


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
        for message in messages_of(broker, topic)
    ]  # fmt: skip


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
            for each in messages_of(broker, pop_retry_topic(group, topic))
        ]
    history.copied_of = {
        each.properties.get(ORIGIN_MESSAGE_ID, each.message_id): each.message_id
        for group in groups
        for topic in (retry_topic(group), dead_letter_topic(group))
        for each in messages_of(broker, topic)
    }
    _look_at_desks(broker, history, topics)
    for group, tags in history.wanted.items():
        for topic in topics:
            for message in messages_of(broker, topic):
                if message.tags not in tags:
                    history.unwanted.setdefault(group, set()).add(message.message_id)
                    history.passed_by.setdefault((group, str(message.queue)), set()).add(message.queue_offset)
    history.fired = [
        (group, message.message_id, message.attempt, (message.stored_ms - began_ms) / 1000)
        for group in groups
        for message in messages_of(broker, retry_topic(group))
        if RECONSUME_TIME not in message.properties
    ]
    if history.skips:
        for topic in topics:
            for message in messages_of(broker, topic):
                at = (message.stored_ms - began_ms) / 1000
                history.stored_at.setdefault(str(message.queue), {})[message.queue_offset] = at


def _look_at_desks(broker: Broker, history: History, topics: Sequence[str]) -> None:
    """What is there of transactions and lots."""
    for message in (each for topic in topics for each in messages_of(broker, topic)):
        for prefix, found in (("deal-", history.deals), ("lot-", history.loads)):
            if message.body.startswith(prefix.encode()):
                found.setdefault(message.body.decode(), []).append(message.message_id)
    for half in messages_of(broker, HALF_TOPIC):
        history.half_messages[half.body.decode()] = history.half_messages.get(half.body.decode(), 0) + 1


def left(broker: Broker, history: History) -> list[str]:
    """What is not finished and committed yet, a line each; empty when drained."""

    def readers(topic: str) -> list[str]:
        if topic.startswith(RECORDS):
            return []
        found = [
            group
            for group in history.groups
            if group not in history.broadcasting
            and (topic == retry_topic(group) if topic.startswith(RETRY_PREFIX) else history.reads(group, topic))
        ]
        return found + [group for group in history.popping if is_popped_by(group, topic, history)]

    lines = [str(each) for each in behind(broker, readers) if not history.is_nobodys(each.group, str(each.queue))]
    if history.popping and (held := popped_count(broker)):
        lines.append(f"{held} popped messages are held")
    return listed([*lines, *under_way(broker)])


def is_popped_by(group: str, topic: str, history: History) -> bool:
    """Whether this group, which pops, has to come to the end of the topic."""
    if topic.startswith(RETRY_PREFIX):
        return topic.startswith(retry_topic(group))
    return history.reads(group, topic)


def popped_count(broker: Broker) -> int:
    """How many messages some member holds, or has held until it ended."""
    (count,) = broker.nodes[0].store.database.writing.execute("SELECT count(*) FROM popped").fetchone()
    return int(count)
