"""SEND_BATCH_MESSAGE (320): several messages of one topic into one queue, all of them or none, at consecutive offsets.

Differences: batch consume queues (BatchCQ) do not exist, so a batch is always taken apart.
"""

from __future__ import annotations

from collections.abc import Mapping

from framework.broker.request import AfterCommit, Answer, Refusal, Request, refuse
from framework.broker.sending import (
    ANSWER_EXTRAS,
    Sent,
    check_body,
    check_room,
    check_send,
    draft,
    send_answer,
    sent_of,
    store_failed,
    write,
)
from framework.broker.store.writer import Stored, Transaction
from framework.broker.topic_rules import is_special
from framework.model.message import UNIQUE_KEY
from framework.wire import batch
from framework.wire import properties as texts
from framework.wire.codes import ResponseCode
from framework.wire.command import Command
from framework.wire.fields import from_fields
from framework.wire.requests.send import SendRequestV2
from framework.wire.stored import Record


def handle(request: Request) -> Answer:
    return send_batch(request, sent_of(from_fields(SendRequestV2, request.command.fields)))


def send_batch(request: Request, sent: Sent) -> Answer:
    """The batch of any of the three send requests."""
    node = request.node
    try:
        if is_special(sent.topic):
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "batch request does not support retry group")
        _, number = check_send(request, sent)
        check_body(node, request.command.body, sent.properties)
        check_room(node)
        drafts = _take_apart(request, sent, number)
    except Refusal as refusal:
        return refuse(refusal.code, refusal.remark, ANSWER_EXTRAS)
    changes = [write(node, each) for each in drafts]

    def change(transaction: Transaction) -> list[Stored]:
        return [each(transaction).stored for each in changes]

    def answer(stored: list[Stored]) -> Command:
        return send_answer(node, stored, number, drafts[0].properties[UNIQUE_KEY])

    return AfterCommit(change, answer, store_failed)


def _take_apart(request: Request, sent: Sent, number: int) -> list[Record]:
    outer = texts.decode(sent.properties)
    drafts = []
    for inner in batch.decode(request.command.body):
        if not inner.body:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "message body is empty")
        properties = _joined(outer, inner.properties)
        drafts.append(draft(request, sent, number, inner.body, properties, inner.flag))
    if not drafts:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "the batch holds no message")
    return drafts


def _joined(outer: Mapping[str, str], inner: Mapping[str, str]) -> dict[str, str]:
    """A message's own properties over the batch's; keys that are the batch's alone are left out."""
    kept = {name: value for name, value in outer.items() if name != UNIQUE_KEY}
    return {**kept, **inner}
