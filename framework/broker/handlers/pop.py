"""Pops: messages for one consumer, which are invisible to its group for a time or until acknowledged."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from framework.broker.answers import AfterCommit, Answer, Hold, Refusal, ok, refuse
from framework.broker.filters import TAG, Wanted, check_kind, read_first
from framework.broker.node import Node
from framework.broker.pops import Scoop, waiting_name
from framework.broker.records import decode, encode
from framework.broker.request import Request
from framework.broker.store import popped
from framework.broker.store.popped import PoppedRow
from framework.broker.store.queues import Queue
from framework.broker.store.topics import Topic
from framework.broker.store.writer import Transaction
from framework.errors import FrameworkError, bare, shorten
from framework.model.reserved import pop_retry_topic
from framework.wire.bodies.pop import BatchAck, BatchAckEntry
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import to_fields
from framework.wire.requests.pop import (
    AckRequest,
    ChangeInvisibleTimeAnswer,
    ChangeInvisibleTimeRequest,
    NotificationAnswer,
    NotificationRequest,
    PollingInfoAnswer,
    PollingInfoRequest,
    PopAnswer,
    PopRequest,
)
from framework.wire.requests.receipts import (
    NORMAL,
    ORDERLY_REVIVE_QUEUE,
    RECEIPT,
    RETRY,
    PoppedShare,
    Receipt,
    offset_info,
    read_receipt,
    start_info,
)

_LATE_MS = 500
_REVIVE_QUEUE = 0  # as RocketMQ's, where its store of popped messages is RocksDB
_FROM_END = 1


def pop_message(request: Request) -> Answer:
    """POP_MESSAGE (200050): messages for one consumer, invisible to its group for a time or until acknowledged; 210
    where none came in time.

    Differences: orderly pops are refused with 29. What is popped is on disk before the answer leaves, so a crash gives
    no message to two members at once. A wait ends exactly at its deadline, and lasts a minute at most. Only the first
    naming of retry topics is used. The subscription that came with a pop is not shown by 345.
    """
    node, header = request.node, request.header(PopRequest)
    now_ms = node.world.clock.now_ms()
    born_ms = header.born_time
    if not born_ms:  # by our clock, and by the same moment when it is looked at again
        born_ms = now_ms
        request.command.fields["bornTime"] = str(now_ms)
    left_ms = born_ms + header.poll_time - now_ms
    if left_ms < -_LATE_MS and not request.was_held:
        raise Refusal(ResponseCode.POLLING_TIMEOUT, f"the broker[{node.address}] pop message is timeout too much")
    topic = _checked(request, header)
    wish = Wanted(header.topic, header.exp, kind=header.exp_type, is_strict=node.settings.is_sql_strict)
    if not wish.is_read:
        return read_first(wish, partial(pop_message, request))
    _check_wanted(node, wish)
    group, number = header.consumer_group, header.queue_id
    node.pops.know(group, topic.name)
    is_from_end = header.init_mode == _FROM_END
    count = max(header.max_msg_nums, 1)
    portions, reserved = node.pops.take(group, topic, number, wish, count=count, from_end=is_from_end)
    with reserved:
        if portions:
            return replace(_hold(node, header, topic, portions, now_ms), loan=reserved.hand_on())
    return _wait(request, header, wish, min(left_ms, _WAIT_MS_MAX))


def _checked(request: Request, header: PopRequest) -> Topic:
    if header.max_msg_nums > _BATCH_MAX:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"the broker[{request.node.address}] pop message's num is greater than {_BATCH_MAX}",
        )
    if header.order:
        raise Refusal(ResponseCode.INVALID_PARAMETER, "order=true: orderly groups cannot pop here; pull instead")
    if not 0 < header.invisible_time <= _INVISIBLE_MS_MAX:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER, f"invisibleTime {header.invisible_time}: use 1 to {_INVISIBLE_MS_MAX} ms"
        )
    return _check_consumer(request, header.consumer_group, header.topic, header.queue_id)


def _wait(request: Request, header: PopRequest, wish: Wanted, left_ms: int) -> Answer:
    pops = request.node.pops
    if left_ms <= 0 or pops.is_stopped:
        return refuse(ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE", _nothing(request.node, header))
    if not pops.holds.has_room(request.client):
        return refuse(ResponseCode.POLLING_FULL, "NO_MESSAGE_IN_QUEUE", _nothing(request.node, header))
    name = waiting_name(header.consumer_group, header.topic)
    return Hold(name, header.queue_id, left_ms, wish.hashes, wish.condition, is_pop=True)


def _nothing(node: Node, header: PopRequest) -> dict[str, str]:
    """Java's client reads the header of an empty answer, too."""
    now_ms = node.world.clock.now_ms()
    return to_fields(
        PopAnswer(pop_time=now_ms, invisible_time=header.invisible_time, revive_qid=_REVIVE_QUEUE, rest_num=0)
    )


def _hold(
    node: Node, header: PopRequest, topic: Topic, portions: list[Scoop], popped_ms: int
) -> AfterCommit[None]:  # fmt: skip
    """Answer when it is on disk who holds them."""
    invisible_ms = header.invisible_time
    due_ms = node.delays.now_ms() + invisible_ms
    group = header.consumer_group

    def answer(_: None) -> RemotingCommand:
        node.pops.rounds.planned(due_ms)
        rest = node.pops.rest(group, topic, header.queue_id)
        if rest:
            node.pops.more(group, topic.name)
        full = [portion for portion in portions if portion.records]
        if not full:
            return refuse(ResponseCode.POLLING_TIMEOUT, "NO_MATCHED_MESSAGE", _nothing(node, header))
        shares = [PoppedShare(each.retry, each.place.number, each.first, each.offsets) for each in full]
        said = PopAnswer(
            pop_time=popped_ms, invisible_time=invisible_ms, revive_qid=_REVIVE_QUEUE, rest_num=rest,
            start_offset_info=start_info(shares), msg_offset_info=offset_info(shares),
        )  # fmt: skip
        body = b"".join(record for each in full for record in _records(node, each, topic.name, popped_ms, invisible_ms))
        node.gave(group, topic.name, sum(len(each.records) for each in full), len(body))
        return ok(to_fields(said), body, remark="FOUND")

    def refused(error: FrameworkError) -> RemotingCommand:
        node.pops.not_held(portions)
        return refuse(ResponseCode.SYSTEM_ERROR, str(error))

    return AfterCommit(node.pops.hold(portions, popped_ms=popped_ms, due_ms=due_ms), answer, refused)


def _records(node: Node, portion: Scoop, topic: str, popped_ms: int, invisible_ms: int) -> list[bytes]:
    """A retry comes as a message of the topic itself, and with its receipt, since it lies elsewhere; not where its own
    topic was asked for.
    """
    if portion.place.topic == topic:
        return portion.records
    found = []
    for data in portion.records:
        record = decode(data)
        receipt = Receipt(
            portion.first, popped_ms, invisible_ms, _REVIVE_QUEUE, portion.retry, node.name, record.queue_id,
            record.queue_offset,
        )  # fmt: skip
        properties = {**record.properties, RECEIPT: receipt.text}
        found.append(encode(replace(record, topic=topic, properties=properties)))
    return found


def ack_message(request: Request) -> Answer:
    """ACK_MESSAGE (200051): a popped message is handled; 0 also where its receipt does not count any more.

    Differences: answered when it is on disk. An orderly receipt (999) is refused with 29.
    """
    node, header = request.node, request.header(AckRequest)
    message, receipt = _held(request, header)
    group, popped_ms = header.consumer_group, receipt.popped_ms
    return AfterCommit(
        lambda transaction: popped.remove(transaction.connection, node.name, group, message, popped_ms), lambda _: ok()
    )


_BITS_MAX = 8192  # of one entry; a pop has 32 messages
_ALL_BITS_MAX = 10_000  # of one request, which is one write


def batch_ack(request: Request) -> Answer:
    """BATCH_ACK_MESSAGE (200151): many popped messages are handled, one bit each; 208 for an empty list.

    Differences: 10,000 bits in one request at most, else 2; those of 200051. All of them are one write.
    """
    acks = BatchAck.decode(request.command.body).acks if request.command.body else ()
    if not acks:
        raise Refusal(ResponseCode.NO_MESSAGE, "no acknowledgement")
    node = request.node
    bits = sum(len(each.bits) * 8 for each in acks)
    if bits > _ALL_BITS_MAX:
        raise Refusal(ResponseCode.SYSTEM_BUSY, f"[OVERLOAD] {bits} bits in one request, {_ALL_BITS_MAX} at most")
    meant = [(each.group, message, each.pop_time) for each in acks for message in _messages(node, each)]

    def change(transaction: Transaction) -> None:
        for group, message, popped_ms in meant:
            popped.remove(transaction.connection, node.name, group, message, popped_ms)

    return AfterCommit(change, lambda _: ok())


def _messages(node: Node, ack: BatchAckEntry) -> list[int]:
    """Ids of the messages that are meant and are there."""
    if ack.retry not in {NORMAL, RETRY} or ack.revive_queue_id == ORDERLY_REVIVE_QUEUE:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"r={shorten(ack.retry)}, rq={ack.revive_queue_id}: no message here is popped so",
        )
    if len(ack.bits) * 8 > _BITS_MAX:
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"{len(ack.bits) * 8} bits in one entry; use {_BITS_MAX} at most")
    topic = ack.topic if ack.retry == NORMAL else pop_retry_topic(ack.group, ack.topic)
    queue = node.queue(topic, ack.queue_id)
    if queue is None:
        return []
    bits = int.from_bytes(ack.bits, "little")
    offsets = [ack.start_offset + i for i in range(bits.bit_length()) if bits >> i & 1]
    return [queue.base + offset for offset in offsets if _is_in(queue, offset)]


def change_invisible_time(request: Request) -> Answer:
    """CHANGE_MESSAGE_INVISIBLETIME (200053): a popped message stays invisible for a time from now; answers the new
    receipt.

    Differences: answered when it is on disk. A receipt that does not count any more gets 208: the message is
    acknowledged, or its time is over and another member may hold it. RocketMQ answers 0 and has the message come once
    more.
    """
    node, header = request.node, request.header(ChangeInvisibleTimeRequest)
    message, receipt = _held(request, header)
    if not 0 <= header.invisible_time <= _INVISIBLE_MS_MAX:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER, f"invisibleTime {header.invisible_time}: use 0 to {_INVISIBLE_MS_MAX} ms"
        )
    now_ms = node.world.clock.now_ms()
    due_ms = node.delays.now_ms() + header.invisible_time
    row = PoppedRow(node.name, header.consumer_group, message, now_ms, due_ms)

    def change(transaction: Transaction) -> None:
        if not popped.is_held(transaction.connection, node.name, row.group, message, receipt.popped_ms):
            raise Refusal(ResponseCode.NO_MESSAGE, f"the receipt does not count any more: {header.topic}")
        popped.put(transaction.connection, [row])

    def answer(_: None) -> RemotingCommand:
        node.pops.rounds.planned(due_ms)
        said = ChangeInvisibleTimeAnswer(
            pop_time=now_ms, invisible_time=header.invisible_time, revive_qid=receipt.revive_queue
        )
        return ok(to_fields(said))

    return AfterCommit(change, answer)


def notification(request: Request) -> Answer:
    """NOTIFICATION (200054): wait until a group has something to pop, and take nothing.

    Differences: orderly ones are refused with 29. Messages that the group's filter keeps out count, as there.
    """
    node, header = request.node, request.header(NotificationRequest)
    if header.order:
        raise Refusal(ResponseCode.INVALID_PARAMETER, "order=true: orderly groups cannot pop here; pull instead")
    topic = _check_consumer(request, header.consumer_group, header.topic, header.queue_id)
    node.pops.know(header.consumer_group, topic.name)
    if node.pops.has_any(header.consumer_group, topic, header.queue_id):
        # Who only asks takes nothing: a pop that waits as well is to have it.
        if request.was_held:
            node.pops.more(header.consumer_group, topic.name)
        return ok(to_fields(NotificationAnswer(has_msg=True)))
    now_ms = node.world.clock.now_ms()
    if not header.born_time:  # by our clock, and by the same moment when it is looked at again
        request.command.fields["bornTime"] = str(now_ms)
    left_ms = min((header.born_time or now_ms) + header.poll_time - now_ms, _WAIT_MS_MAX)
    if left_ms <= 0 or node.pops.is_stopped:
        return ok(to_fields(NotificationAnswer(has_msg=False)))
    if not node.pops.holds.has_room(request.client):
        return ok(to_fields(NotificationAnswer(has_msg=False, polling_full=True)))
    return Hold(waiting_name(header.consumer_group, topic.name), header.queue_id, left_ms, is_pop=True)


def polling_info(request: Request) -> Answer:
    """POLLING_INFO (200055): how many pops of a group wait for a message of a queue; -1 asks for those of any queue."""
    header = request.header(PollingInfoRequest)
    _check_consumer(request, header.consumer_group, header.topic, header.queue_id)
    name = waiting_name(header.consumer_group, header.topic)
    return ok(to_fields(PollingInfoAnswer(polling_num=request.node.pops.holds.count(name, header.queue_id))))


_BATCH_MAX = 32
_WAIT_MS_MAX = 60_000
"""A pop waits no longer, whatever it asks for."""
_INVISIBLE_MS_MAX = 24 * 3_600_000
"""Longer than any handler runs; what is held for longer is lost to the group."""


def _check_consumer(request: Request, group_name: str, topic_name: str, number: int) -> Topic:
    """The topic that a group may pop, or a Refusal."""
    node = request.node
    if not node.switches.is_readable:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the broker[{node.address}] pop message is forbidden")
    topic = _topic(node, topic_name)
    if not topic.is_readable:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the topic[{topic_name}] peeking message is forbidden")
    if number >= topic.read_queues or number < -1:
        raise Refusal(ResponseCode.INVALID_PARAMETER, _no_queue(request, topic, number))
    group = node.rules.group(group_name)
    if not group.may_consume:
        raise Refusal(ResponseCode.NO_PERMISSION, f"subscription group no permission, {group_name}")
    if group.forbidden and topic_name in group.forbidden:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the consumer's group/topic[{group_name}/{topic_name}] forbidden")
    return topic


def _held(request: Request, header: AckRequest | ChangeInvisibleTimeRequest) -> tuple[int, Receipt]:
    """The id of the message that a receipt is for, and the receipt; or a Refusal, 208 where there is no message."""
    topic, number, offset = _topic(request.node, header.topic), header.queue_id, header.offset
    if not 0 <= number < topic.read_queues:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, _no_queue(request, topic, number))
    queue = request.node.queue(topic.name, number)
    if queue is None or not _is_in(queue, offset):
        low, end = (0, 0) if queue is None else (queue.low, queue.end)
        raise Refusal(
            ResponseCode.NO_MESSAGE, f"offset is illegal, key:{topic.name}@{number}, commit:{offset}, store:{low}~{end}"
        )
    receipt = read_receipt(header.extra_info, offset)
    if receipt.revive_queue == ORDERLY_REVIVE_QUEUE:
        raise Refusal(ResponseCode.INVALID_PARAMETER, "orderly groups cannot pop here; pull instead")
    return queue.base + offset, receipt


def _is_in(queue: Queue, offset: int) -> bool:
    return queue.low <= offset < queue.end


def _check_wanted(node: Node, wish: Wanted) -> None:
    if wish.kind != TAG:
        check_kind(node.switches, wish.kind)
    if wish.mistake:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {wish.mistake}"
        )


def _topic(node: Node, name: str) -> Topic:
    topic = node.rules.topics.get(name)
    if topic is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{bare(name)}] not exist, apply first please!")
    return topic


def _no_queue(request: Request, topic: Topic, number: int) -> str:
    return (
        f"queueId[{number}] is illegal, topic:[{topic.name}] topicConfig.readQueueNums:[{topic.read_queues}]"
        f" consumer:[{request.client.peer}]"
    )
