"""POP_MESSAGE (200050): messages for one consumer, invisible to its group for a time or until acknowledged.

Differences: orderly pops are refused with 29. What is popped is on disk before the answer leaves, so a crash gives no
message to two members at once. A wait ends exactly at its deadline, and lasts a minute at most. Only the first naming
of retry topics is used. The subscription that came with a pop is not shown by 345.
"""

from __future__ import annotations

from dataclasses import replace

from framework.broker.filters import Wanted, read_first, wanted
from framework.broker.node import Node
from framework.broker.pop_requests import BATCH_MAX, INVISIBLE_MS_MAX, WAIT_MS_MAX, check_consumer, wanted_of
from framework.broker.pops import Scoop, waiting_name
from framework.broker.records import decode, encode
from framework.broker.request import AfterCommit, Answer, Hold, Refusal, Request, ok, refuse
from framework.broker.store.topics import Topic
from framework.errors import FrameworkError
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import to_fields
from framework.wire.requests.pop import PopAnswer, PopRequest
from framework.wire.requests.receipts import NORMAL, RECEIPT, PoppedShare, Receipt, offset_info, start_info

_LATE_MS = 500
_REVIVE_QUEUE = 0  # as RocketMQ's, where its store of popped messages is RocksDB
_FROM_END = 1


def handle(request: Request) -> Answer:
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
    asked = wanted(header.topic, header.exp, kind=header.exp_type, is_strict=node.settings.is_sql_strict)
    if (unread := read_first(request, asked, handle)) is not None:
        return unread
    wish = wanted_of(node, header.topic, header.exp, header.exp_type)
    group, number = header.consumer_group, header.queue_id
    node.pops.know(group, topic.name)
    is_from_end = header.init_mode == _FROM_END
    count = max(header.max_msg_nums, 1)
    portions, reserved = node.pops.take(group, topic, number, wish, count=count, from_end=is_from_end)
    with reserved:
        if portions:
            return replace(_hold(node, header, topic, portions, now_ms), loan=reserved.hand_on())
    return _wait(request, header, wish, min(left_ms, WAIT_MS_MAX))


def _checked(request: Request, header: PopRequest) -> Topic:
    if header.max_msg_nums > BATCH_MAX:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"the broker[{request.node.address}] pop message's num is greater than {BATCH_MAX}",
        )
    if header.order:
        raise Refusal(ResponseCode.INVALID_PARAMETER, "order=true: orderly groups cannot pop here; pull instead")
    if not 0 < header.invisible_time <= INVISIBLE_MS_MAX:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER, f"invisibleTime {header.invisible_time}: use 1 to {INVISIBLE_MS_MAX} ms"
        )
    return check_consumer(request, header.consumer_group, header.topic, header.queue_id)


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
        node.pops.planned(due_ms)
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
    """A retry comes as a message of the topic itself, and with its receipt, since it lies elsewhere."""
    if portion.retry == NORMAL:
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
