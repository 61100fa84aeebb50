"""What every way of storing a message shares: the checks with RocketMQ's codes, the extras, delay, and the answer.

A message is checked and put together when its request arrives; its offset, place and store time come with the write.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import NamedTuple

from framework.broker.answers import AfterCommit, Refusal, ok, refuse
from framework.broker.delays import OUT, TIMER_TOPIC, DelayWish, Instant, Level
from framework.broker.filters import NO_TAG, tag_hash
from framework.broker.node import Node
from framework.broker.records import decode, encode, host_of, key_hashes
from framework.broker.request import Request
from framework.broker.settings import REGION
from framework.broker.store.topics import StoredGroup, Topic
from framework.broker.store.writer import Stored, Transaction
from framework.broker.topic_rules import NOT_SENDABLE, check_topic_name, is_special
from framework.broker.transactions import PREPARED, PRODUCER_GROUP, REAL_QUEUE, REAL_TOPIC
from framework.errors import FrameworkError
from framework.model.message import DELAY_LEVEL, TAGS, UNIQUE_KEY
from framework.model.reserved import DEAD_LETTER_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC
from framework.wire import properties as texts
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.ids import offset_message_id
from framework.wire.requests.send import SendRequest, SendRequestV2
from framework.wire.stored import Record

ENQUEUED, DEQUEUED = "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS"
POP_RECEIPT = "POP_CK"
# Java's client reads both of every answer to a send, of failed ones too.
ANSWER_EXTRAS = {"MSG_REGION": REGION, "TRACE_ON": "true"}
_MADE_HERE = {*ANSWER_EXTRAS, "CLUSTER", POP_RECEIPT}
# From this version on the client's own maximum of retries counts (V3_4_9).
_OWN_MAXIMUM_VERSION = 121
_TRANSACTION_BITS, _PREPARED = 0xC, 0x4


@dataclass(slots=True, kw_only=True)
class Sent:
    """A send's header, whichever of the three requests brought it. Never changed; freezing it costs each send."""

    topic: str
    default_topic: str
    default_queues: int
    number: int
    sys_flag: int
    born_ms: int
    flag: int
    properties: str
    reconsumed: int = 0
    retries_max: int | None = None


def sent_of(header: SendRequest | SendRequestV2) -> Sent:
    """The part of the header that decides, the same in both forms."""
    return Sent(
        topic=header.topic,
        default_topic=header.default_topic,
        default_queues=header.default_topic_queue_nums,
        number=header.queue_id,
        sys_flag=header.sys_flag,
        born_ms=header.born_timestamp,
        flag=header.flag,
        properties=header.properties or "",
        reconsumed=header.reconsume_times or 0,
        retries_max=header.max_reconsume_times,
    )


class Planned(NamedTuple):
    """A message written, and when it is due where it is delayed."""

    stored: Stored
    due_ms: int | None


@lru_cache(maxsize=16)
def _extras(cluster: str) -> str:
    """What a message gets from the broker, as text."""
    return texts.encode({**ANSWER_EXTRAS, "CLUSTER": cluster})


def unchanged(text: str, properties: Mapping[str, str]) -> str | None:
    """The text of a producer's properties, if it can be stored as it came: nothing in it is dropped or made here."""
    text = texts.ended(text)
    is_whole = (
        UNIQUE_KEY in properties and properties.keys().isdisjoint(_MADE_HERE) and texts.is_plain(text, properties)
    )
    return text if is_whole else None


def check_send(request: Request, sent: Sent) -> tuple[Topic, int]:
    """The topic and queue that take the message, or a Refusal; in RocketMQ's order."""
    node = request.node
    check_topic_name(sent.topic)
    if sent.topic in NOT_SENDABLE:
        raise Refusal(ResponseCode.NO_PERMISSION, f"Sending message to topic[{sent.topic}] is forbidden.")
    topic = node.rules.for_send(sent.topic, sent.default_topic, sent.default_queues)
    if not topic.is_writable:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the topic[{sent.topic}] is not writable, perm {topic.perm}")
    if topic.is_ordered and not node.switches.is_writable:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the broker[{node.address}] sending message is forbidden")
    queues = max(topic.read_queues, topic.write_queues)
    if sent.number >= queues:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"request queueId[{sent.number}] is illegal, topic {sent.topic} has {queues} queues",
        )
    number = sent.number if sent.number >= 0 else node.world.chance.below(max(topic.write_queues, 1))
    if len(node.store.queues) >= node.settings.queues_max and node.queue(sent.topic, number) is None:
        limit = node.settings.queues_max
        raise Refusal(ResponseCode.SYSTEM_BUSY, f"[OVERLOAD] {limit} queues have messages, the limit; delete topics")
    return topic, number


def check_room(node: Node) -> None:
    """Refuse (14) to take messages on a disk that is all but full, in the stock broker's words."""
    if node.retention.is_full:
        ratio = node.retention.disk_ratio
        raise Refusal(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            "service not available now. It may be caused by one of the following reasons: "
            f"the broker's disk is full [CL: {ratio:5.2f} CQ: {ratio:5.2f} INDEX: {ratio:5.2f}], messages are put to "
            "the slave, message store has been shut down, etc.",
        )


def check_body(node: Node, body: bytes, properties: str) -> None:
    """Refuse what is too large (13), and what is empty, as the real broker does, with 1."""
    if not body:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "message body is empty")
    if len(body) > node.settings.body_bytes_max:
        raise Refusal(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the message is illegal: body of {len(body)} bytes, maximum {node.settings.body_bytes_max}",
        )
    check_properties(node, properties)


def check_properties(node: Node, properties: str) -> None:
    """Refuse (13) a properties text that does not fit into a record, with room for what is added here."""
    size = len(properties.encode())
    if size > node.settings.properties_bytes_max:
        raise Refusal(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the message is illegal: properties of {size} bytes, maximum {node.settings.properties_bytes_max}",
        )


def draft(
    request: Request, sent: Sent, number: int, body: bytes, properties: dict[str, str], flag: int, *,
    may_be_half: bool = False,
) -> Record:  # fmt: skip
    """The message as it will be stored, or a Refusal of a half one where it `may_be_half` not be."""
    node = request.node
    if PREPARED in properties or sent.sys_flag & _TRANSACTION_BITS:
        _check_whole(node, sent, properties, may_be_half=may_be_half)
    properties.pop(POP_RECEIPT, None)
    if UNIQUE_KEY not in properties:
        properties[UNIQUE_KEY] = node.unique_keys.next(node.world.clock.now_ms())
    return Record(
        topic=sent.topic,
        queue_id=number,
        body=body,
        properties=properties,
        flag=flag,
        sys_flag=sent.sys_flag & ~_TRANSACTION_BITS,  # transaction bits are the broker's own
        born_ms=sent.born_ms,
        born_host=host_of(request.client.peer),
        store_host=host_of(node.address),
        reconsume_times=sent.reconsumed,
    )


def _check_whole(node: Node, sent: Sent, properties: Mapping[str, str], *, may_be_half: bool) -> None:
    """Refuse (16) half messages where they are not taken, and (13) one that no producer could end."""
    if not is_half(sent, properties) and sent.sys_flag & _TRANSACTION_BITS != _PREPARED:
        return
    if sent.reconsumed > 0 and is_special(sent.topic):
        return
    if not (may_be_half and is_half(sent, properties)) or node.switches.rejects_transactions:
        raise Refusal(
            ResponseCode.NO_PERMISSION, f"the broker[{node.address}] sending transaction message is forbidden"
        )
    if not properties.get(PRODUCER_GROUP):
        raise Refusal(
            ResponseCode.MESSAGE_ILLEGAL, f"the message is illegal: a half message needs property {PRODUCER_GROUP}"
        )


def is_half(sent: Sent, properties: Mapping[str, str]) -> bool:
    """Whether the message waits for the end of a transaction. A retry may still say that its message was one."""
    return properties.get(PREPARED, "").lower() == "true" and not (sent.reconsumed > 0 and is_special(sent.topic))


def write(
    node: Node, message: Record, wish: DelayWish | None = None, text: str | None = None
) -> Callable[[Transaction], Planned]:
    """A change that stores the message: at once in its queue, or on the schedule first.

    `text` is its properties where they are at hand as `unchanged` has them.
    """
    if wish is None:
        tag, hashes = tag_hash(message.properties.get(TAGS)), key_hashes(message)
        record = encode(message, None if text is None else text.encode())
        # Not the message itself: its parts would be kept beside the record for as long as it waits for the disk.
        return partial(_append, node.name, message.topic, message.queue_id, record, tag, hashes)
    message = _waiting(node, message, wish)
    record = encode(message)

    def change(transaction: Transaction) -> Planned:
        # On the schedule nobody looks for it: it has no tag and no keys.
        stored = transaction.append(node.name, message.topic, message.queue_id, record, NO_TAG)
        if isinstance(wish, Level):
            return Planned(stored, node.delays.plan(transaction, stored, message.queue_id + 1))
        return Planned(stored, node.delays.plan_at(transaction, stored, wish.due_ms))

    return change


def _append(
    broker: str, topic: str, number: int, record: bytes, tag: int, hashes: list[int], transaction: Transaction
) -> Planned:
    return Planned(transaction.append(broker, topic, number, record, tag, hashes), None)


def _waiting(node: Node, message: Record, wish: DelayWish) -> Record:
    """The message as it waits. What is added stays in it when it is delivered, as RocketMQ leaves it there."""
    real = {REAL_TOPIC: message.topic, REAL_QUEUE: str(message.queue_id)}
    if isinstance(wish, Level):
        level = node.delays.level(wish.number)
        properties = {**message.properties, DELAY_LEVEL: str(level), **real}
        return replace(message, topic=SCHEDULE_TOPIC, queue_id=level - 1, properties=properties)
    # Written down now, since a record that grew when it is due might no longer fit.
    times = {OUT: str(wish.wall_ms), ENQUEUED: str(node.world.clock.now_ms()), DEQUEUED: str(wish.wall_ms)}
    return replace(message, topic=TIMER_TOPIC, queue_id=0, properties={**message.properties, **times, **real})


def written(node: Node, planned: Planned) -> None:
    """To be called when a written message is committed."""
    if planned.due_ms is not None:
        node.delays.rounds.planned(planned.due_ms)


def deliver_due(transaction: Transaction, broker: str, record: bytes) -> None:
    """Put a due message into the queue it was sent to: the same record at another place."""
    message = decode(record)
    topic = message.properties[REAL_TOPIC]
    number = int(message.properties[REAL_QUEUE])
    message = replace(message, topic=topic, queue_id=number)
    tag = tag_hash(message.properties.get(TAGS))
    transaction.append(broker, topic, number, encode(message), tag, key_hashes(message))


def retry_or_dead_letter(request: Request, sent: Sent) -> Sent:
    """A plain send to a retry topic: past its maximum, or while the group works in order, it is a dead letter."""
    if not sent.topic.startswith(RETRY_PREFIX):
        return sent
    node = request.node
    name = sent.topic.removeprefix(RETRY_PREFIX)
    maximum = retries_max_of(request, node.rules.group(name), sent.retries_max)
    if sent.reconsumed <= maximum and not node.locks.is_any_alive(name, node.world.clock.monotonic_ms()):
        return sent
    node.rules.dead_letter_topic(name)
    return replace(sent, topic=DEAD_LETTER_PREFIX + name, number=0)


def retries_max_of(request: Request, group: StoredGroup, own: int | None) -> int:
    """How often the group's messages are retried: as often as the client says, where it may."""
    return group.retries_max if own is None or request.command.version < _OWN_MAXIMUM_VERSION else own


def send(request: Request, sent: Sent) -> AfterCommit[Planned] | AfterCommit[tuple[Stored, int]] | RemotingCommand:
    """One message: 10 and 310."""
    node = request.node
    try:
        sent = retry_or_dead_letter(request, sent)
        _, number = check_send(request, sent)
        check_body(node, request.command.body, sent.properties)
        check_room(node)
        properties, text = texts.decode(sent.properties), None
        if sent.topic.startswith(DEAD_LETTER_PREFIX):
            properties[DELAY_LEVEL] = "-1"
            properties = {name: value for name, value in properties.items() if not name.startswith("TIMER_")}
        else:
            text = unchanged(sent.properties, properties)
            text = None if text is None else text + _extras(node.settings.cluster)
        properties.update(ANSWER_EXTRAS)
        properties["CLUSTER"] = node.settings.cluster
        message = draft(request, sent, number, request.command.body, properties, sent.flag, may_be_half=True)
        if PREPARED in properties and is_half(sent, properties):
            return _send_half(node, message, number)
        wish = node.delays.wish_of(message.properties)
        change = write(node, message, wish, text)
    except Refusal as refusal:
        return refuse(refusal.code, refusal.remark, ANSWER_EXTRAS)
    key = message.properties[UNIQUE_KEY]

    def answer(planned: Planned) -> RemotingCommand:
        written(node, planned)
        said = send_answer(node, [planned.stored], number, key)
        if isinstance(wish, Instant) and planned.due_ms is not None and not sent.topic.startswith(RETRY_PREFIX):
            place = planned.stored.place
            said.fields["recallHandle"] = recall_handle(sent.topic, node.name, wish.wall_ms, key, planned.due_ms, place)
        return said

    return AfterCommit(change, answer, store_failed)


def _send_half(node: Node, message: Record, number: int) -> AfterCommit[tuple[Stored, int]]:
    change = node.transactions.prepare(message)
    key = message.properties[UNIQUE_KEY]

    def answer(prepared: tuple[Stored, int]) -> RemotingCommand:
        stored, due_ms = prepared
        node.transactions.rounds.planned(due_ms)
        return send_answer(node, [stored], number, key)

    return AfterCommit(change, answer, store_failed)


def send_answer(node: Node, stored: list[Stored], number: int, key: str | None) -> RemotingCommand:
    """What a producer is told: the ids in the log, the queue and the first offset."""
    host = offset_message_id(host_of(node.address), 0)[:-16]
    fields = {
        "msgId": ",".join([f"{host}{each.place:016X}" for each in stored]),
        "queueId": str(number),
        "queueOffset": str(stored[0].offset),
        **ANSWER_EXTRAS,
    }
    if key:
        fields["transactionId"] = key
    return ok(fields)


def recall_handle(topic: str, broker: str, wall_ms: int, message_id: str, due_ms: int, place: int) -> str:
    """RocketMQ's v1, and behind it the message's place on the schedule, which its clients read over."""
    return base64.urlsafe_b64encode(f"v1 {topic} {broker} {wall_ms} {message_id} {due_ms} {place}".encode()).decode()


def store_failed(error: FrameworkError) -> RemotingCommand:
    """The store is full or failing: not sent, ask another broker or again."""
    return refuse(ResponseCode.SERVICE_NOT_AVAILABLE, f"service not available now: {error}", ANSWER_EXTRAS)
