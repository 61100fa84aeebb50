"""SEND_BATCH_MESSAGE (320): several messages of one topic into one queue, all of them or none, at consecutive offsets.

Differences: batch consume queues (BatchCQ) do not exist, so a batch is always taken apart. One with half
messages is refused, as by 10.
"""

from __future__ import annotations

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
    unchanged,
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
    changes = [write(node, message, text=text) for message, text in drafts]
    first, _ = drafts[0]

    def change(transaction: Transaction) -> list[Stored]:
        return [each(transaction).stored for each in changes]

    def answer(stored: list[Stored]) -> Command:
        return send_answer(node, stored, number, first.properties[UNIQUE_KEY])

    return AfterCommit(change, answer, store_failed)


def _take_apart(request: Request, sent: Sent, number: int) -> list[tuple[Record, str | None]]:
    """The messages, each with the text of its properties where that is its own alone."""
    outer = texts.decode(sent.properties)
    outer.pop(UNIQUE_KEY, None)
    drafts: list[tuple[Record, str | None]] = []
    for body, stored, flag in batch.cut(request.command.body):
        if not body:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "message body is empty")
        properties = texts.decode_stored(stored)
        text = unchanged(stored.decode("utf-8", "replace"), properties)
        if outer and not outer.keys() <= properties.keys():
            properties, text = {**outer, **properties}, None
        drafts.append((draft(request, sent, number, body, properties, flag), text))
    if not drafts:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "the batch holds no message")
    return drafts
