"""SEND_BATCH_MESSAGE (320): several messages of one topic into one queue, all of them or none, at consecutive offsets.

Differences: batch consume queues (BatchCQ) do not exist, so a batch is always taken apart. One with half
messages is refused, as by 10.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias

from framework.broker.request import AfterCommit, Answer, InSteps, Refusal, Request, refuse
from framework.broker.sending import (
    ANSWER_EXTRAS,
    Planned,
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
from framework.wire.command import RemotingCommand
from framework.wire.requests.send import SendRequestV2

# About five milliseconds each time, as a group of small writes takes.
STEP_MESSAGES = 200
STEP_BYTES = 512 * 1024  # a message may have a thousand properties, each of which is taken apart

_Draft: TypeAlias = tuple[str, Callable[[Transaction], Planned]]


def handle(request: Request) -> Answer:
    return send_batch(request, sent_of(request.header(SendRequestV2)))


def send_batch(request: Request, sent: Sent) -> Answer:
    """The batch of any of the three send requests."""
    node = request.node
    try:
        if is_special(sent.topic):
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "batch request does not support retry group")
        _, number = check_send(request, sent)
        check_body(node, request.command.body, sent.properties)
        check_room(node)
        places = batch.positions(request.command.body)
        if len(places) > STEP_MESSAGES or len(request.command.body) > STEP_BYTES:
            return InSteps(_in_steps(request, sent, number, places), is_write=True)
        drafts = [_draft(request, sent, number, outer_of(sent), at) for at in places]
    except Refusal as refusal:
        return refuse(refusal.code, refusal.remark, ANSWER_EXTRAS)
    return _stored(request, number, drafts)


def _in_steps(request: Request, sent: Sent, number: int, places: list[int]) -> Generator[None, None, Answer]:
    outer, drafts, until = outer_of(sent), list[_Draft](), 0
    for i, at in enumerate(places):
        if i % STEP_MESSAGES == 0 or at >= until:
            until = at + STEP_BYTES
            yield
        try:
            drafts.append(_draft(request, sent, number, outer, at))
        except Refusal as refusal:
            return refuse(refusal.code, refusal.remark, ANSWER_EXTRAS)
    return _stored(request, number, drafts)


def _stored(request: Request, number: int, drafts: list[_Draft]) -> Answer:
    """Written all together. Of many, some at a time: what is under way is nobody's to see before the commit."""
    if not drafts:
        return refuse(ResponseCode.MESSAGE_ILLEGAL, "the batch holds no message", ANSWER_EXTRAS)
    node, (first_key, _) = request.node, drafts[0]

    def change(transaction: Transaction) -> list[Stored]:
        return [put(transaction).stored for _, put in drafts]

    def change_in_steps(transaction: Transaction) -> Generator[None, None, list[Stored]]:
        stored: list[Stored] = []
        for i, (_, put) in enumerate(drafts):
            stored.append(put(transaction).stored)
            if i % STEP_MESSAGES == 0:
                yield
        return stored

    def answer(stored: list[Stored]) -> RemotingCommand:
        return send_answer(node, stored, number, first_key)

    return AfterCommit(change if len(drafts) <= STEP_MESSAGES else change_in_steps, answer, store_failed)


def outer_of(sent: Sent) -> dict[str, str]:
    """Properties of the batch itself, which each message has unless it says otherwise."""
    outer = texts.decode(sent.properties)
    outer.pop("WAIT", None)  # it is about the request: RocketMQ drops it, too
    outer.pop(UNIQUE_KEY, None)
    return outer


def _draft(request: Request, sent: Sent, number: int, outer: dict[str, str], at: int) -> _Draft:
    """A message's unique key, and the change that stores it."""
    body, stored, flag = batch.cut_at(request.command.body, at)
    if not body:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "message body is empty")
    properties = texts.decode_stored(stored)
    # Its own text serves where it is the message's alone.
    text = unchanged(stored.decode("utf-8", "replace"), properties)
    if outer and not outer.keys() <= properties.keys():
        properties, text = {**outer, **properties}, None
    message = draft(request, sent, number, body, properties, flag)
    return message.properties[UNIQUE_KEY], write(request.node, message, text=text)
