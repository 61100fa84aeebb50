"""CHANGE_MESSAGE_INVISIBLETIME (200053): a popped message stays invisible for a time from now; answers the new receipt.

Differences: answered when it is on disk. A receipt that does not count any more gets 208: the message is acknowledged,
or its time is over and another member may hold it. RocketMQ answers 0 and has the message come once more.
"""

from __future__ import annotations

from framework.broker.pop_requests import INVISIBLE_MS_MAX, check_place, message_of
from framework.broker.request import AfterCommit, Answer, Refusal, Request, ok
from framework.broker.store import popped
from framework.broker.store.popped import PoppedRow
from framework.broker.store.writer import Transaction
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import to_fields
from framework.wire.requests.pop import ChangeInvisibleTimeAnswer, ChangeInvisibleTimeRequest
from framework.wire.requests.receipts import ORDERLY_REVIVE_QUEUE, read_receipt


def handle(request: Request) -> Answer:
    node, header = request.node, request.header(ChangeInvisibleTimeRequest)
    check_place(request, header.topic, header.queue_id)
    message = message_of(node, header.topic, header.queue_id, header.offset)
    receipt = read_receipt(header.extra_info, header.offset)
    if receipt.revive_queue == ORDERLY_REVIVE_QUEUE:
        raise Refusal(ResponseCode.INVALID_PARAMETER, "orderly groups cannot pop here; pull instead")
    if not 0 <= header.invisible_time <= INVISIBLE_MS_MAX:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER, f"invisibleTime {header.invisible_time}: use 0 to {INVISIBLE_MS_MAX} ms"
        )
    now_ms = node.world.clock.now_ms()
    due_ms = node.delays.now_ms() + header.invisible_time
    row = PoppedRow(node.name, header.consumer_group, message, now_ms, due_ms)

    def change(transaction: Transaction) -> None:
        if not popped.is_held(transaction.connection, node.name, row.group, message, receipt.popped_ms):
            raise Refusal(ResponseCode.NO_MESSAGE, f"the receipt does not count any more: {header.topic}")
        popped.put(transaction.connection, [row])

    def answer(_: None) -> RemotingCommand:
        node.pops.planned(due_ms)
        said = ChangeInvisibleTimeAnswer(
            pop_time=now_ms, invisible_time=header.invisible_time, revive_qid=receipt.revive_queue
        )
        return ok(to_fields(said))

    return AfterCommit(change, answer)
