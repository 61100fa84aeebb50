"""ACK_MESSAGE (200051): a popped message is handled; 0 also where its receipt does not count any more.

Differences: answered when it is on disk. An orderly receipt (999) is refused with 29.
"""

from __future__ import annotations

from framework.broker.pop_requests import check_place, message_of
from framework.broker.request import AfterCommit, Answer, Refusal, Request, ok
from framework.broker.store import popped
from framework.wire.codes import ResponseCode
from framework.wire.requests.pop import AckRequest
from framework.wire.requests.receipts import ORDERLY_REVIVE_QUEUE, read_receipt


def handle(request: Request) -> Answer:
    node, header = request.node, request.header(AckRequest)
    check_place(request, header.topic, header.queue_id)
    message = message_of(node, header.topic, header.queue_id, header.offset)
    receipt = read_receipt(header.extra_info, header.offset)
    if receipt.revive_queue == ORDERLY_REVIVE_QUEUE:
        raise Refusal(ResponseCode.INVALID_PARAMETER, "orderly groups cannot pop here; pull instead")
    group, popped_ms = header.consumer_group, receipt.popped_ms
    return AfterCommit(
        lambda transaction: popped.remove(transaction.connection, node.name, group, message, popped_ms), lambda _: ok()
    )
