"""BATCH_ACK_MESSAGE (200151): many popped messages are handled, one bit each; 208 for an empty list.

Differences: 10,000 bits in one request at most, else 2; those of 200051. All of them are one write.
"""

from __future__ import annotations

from framework.broker.node import Node
from framework.broker.pop_requests import is_in
from framework.broker.request import AfterCommit, Answer, Refusal, Request, ok
from framework.broker.store import popped
from framework.broker.store.writer import Transaction
from framework.errors import shorten
from framework.model.reserved import pop_retry_topic
from framework.wire.bodies.pop import BatchAck, BatchAckEntry
from framework.wire.codes import ResponseCode
from framework.wire.requests.receipts import NORMAL, ORDERLY_REVIVE_QUEUE, RETRY

_BITS_MAX = 8192  # of one entry; a pop has 32 messages
_ALL_BITS_MAX = 10_000  # of one request, which is one write


def handle(request: Request) -> Answer:
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
    return [queue.base + offset for offset in offsets if is_in(queue, offset)]
