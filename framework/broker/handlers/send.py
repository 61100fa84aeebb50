"""Sends: one message, a batch, a reply to a request, and taking back what waits for its time."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import NamedTuple, TypeAlias

from framework.broker.answers import AfterCommit, Answer, InSteps, Refusal, Relay, ok, refuse
from framework.broker.node import Node
from framework.broker.records import decode
from framework.broker.request import Request
from framework.broker.sending import (
    ANSWER_EXTRAS,
    Planned,
    Sent,
    check_body,
    check_room,
    check_send,
    draft,
    recall_handle,
    send,
    send_answer,
    sent_of,
    store_failed,
    unchanged,
    write,
)
from framework.broker.store import delayed
from framework.broker.store.writer import Stored, Transaction
from framework.broker.topic_rules import is_special
from framework.broker.transactions import REAL_TOPIC
from framework.errors import bare
from framework.model.message import UNIQUE_KEY
from framework.wire import batch
from framework.wire import properties as texts
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import to_fields
from framework.wire.requests.send import PushReplyRequest, RecallAnswer, RecallRequest, SendRequest, SendRequestV2


def send_message(request: Request) -> Answer:
    """SEND_MESSAGE (10): one message, stored before it is answered. Also one batch, by the header's own flag.

    Differences: always durable, so never 10, 11 or 12; where the store fails the answer is 14. A half message without
    PGROUP, which no producer could end, is refused with 13; one in a batch, or with the bit in sysFlag alone, with 16.
    """
    header = request.header(SendRequest)
    return send_batch(request, sent_of(header)) if header.batch else send(request, sent_of(header))


_INT32_DIGITS, _INT64_DIGITS = 9, 18  # at most, so that no range needs to be looked at
_NUMBERS = 4


def send_message_v2(request: Request) -> Answer:
    """SEND_MESSAGE_V2 (310): as 10, with the header's names cut to one letter. What modern clients send.

    Differences: those of 10.
    """
    sent = plain(request.command.fields)
    if sent is not None:
        return send(request, sent)
    header = request.header(SendRequestV2)
    return send_batch(request, sent_of(header)) if header.batch else send(request, sent_of(header))


def plain(fields: Mapping[str, str]) -> Sent | None:
    """The header of one message read by hand, where nothing about it is unusual; None: to be read with all checks.

    Reading it field by field costs three times as much, which each send would pay.
    """
    try:
        queues, number, sys_flag, flag, born = fields["d"], fields["e"], fields["f"], fields["h"], fields["g"]
        small = queues + number + sys_flag + flag
        reconsumed, most = fields.get("j", "0"), fields.get("l")
        digits = f"{small}{born}{reconsumed}{most or ''}"
        if not (
            digits.isascii()
            and digits.isdecimal()
            and len(small) <= _INT32_DIGITS + _NUMBERS - 1
            and len(born) <= _INT64_DIGITS
            and len(reconsumed) <= _INT32_DIGITS
            and (most is None or len(most) <= _INT32_DIGITS)
            and fields.get("m", "false") == "false"
            and fields.get("k", "false") in {"false", "true"}
            and "a" in fields
        ):
            return None
        return Sent(
            topic=fields["b"],
            default_topic=fields["c"],
            default_queues=int(queues),
            number=int(number),
            sys_flag=int(sys_flag),
            born_ms=int(born),
            flag=int(flag),
            properties=fields.get("i") or "",
            reconsumed=int(reconsumed),
            retries_max=None if most is None else int(most),
        )
    except (KeyError, ValueError):
        return None


# About five milliseconds each time, as a group of small writes takes.
STEP_MESSAGES = 200
STEP_BYTES = 512 * 1024  # a message may have a thousand properties, each of which is taken apart

_Draft: TypeAlias = tuple[str, Callable[[Transaction], Planned]]


def send_batch_message(request: Request) -> Answer:
    """SEND_BATCH_MESSAGE (320): several messages of one topic into one queue, all of them or none, at consecutive
    offsets.

    Differences: batch consume queues (BatchCQ) do not exist, so a batch is always taken apart. One with half messages
    is refused, as by 10.
    """
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


_REGION = {"MSG_REGION": ANSWER_EXTRAS["MSG_REGION"]}
_INVALID = "recall handle is invalid"


class _Handle(NamedTuple):
    topic: str
    broker: str
    wall_ms: int
    message_id: str
    due_ms: int
    place: int


def recall_message(request: Request) -> Answer:
    """RECALL_MESSAGE (370): a message that waits for its time is taken off the schedule; 16 where recall is switched
    off.

    Differences: on by default (RocketMQ: off). A handle of this broker also says where the message lies; a handle that
    does not fit its message is refused with 604. The message is taken off at once, where RocketMQ stores a second
    message that cancels the first when both are due. Asked twice it succeeds twice. A due message is never taken off.
    """
    try:
        return _recall(request)
    except Refusal as refusal:
        return refuse(refusal.code, refusal.remark, _REGION)


def _recall(request: Request) -> Answer:
    node, header = request.node, request.header(RecallRequest)
    if not node.switches.recalls:
        raise Refusal(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
    if not node.switches.is_writable:
        raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available")
    if node.rules.topics.get(header.topic) is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{header.topic}] not exist")
    found = _handle_in(header.recall_handle)
    if found.topic != header.topic:
        raise Refusal(ResponseCode.ILLEGAL_OPERATION, "recall failed, topic not match")
    if found.broker != node.name:
        raise Refusal(ResponseCode.ILLEGAL_OPERATION, "recall failed, broker service not available")
    if found.due_ms <= node.delays.now_ms():
        raise Refusal(ResponseCode.ILLEGAL_OPERATION, "recall failed, timestamp invalid")
    _check_message(node, found)

    def take_back(transaction: Transaction) -> None:
        transaction.flush()  # what this very group has planned is still in the transaction's hands
        delayed.take_back(transaction.connection, found.due_ms, found.place)

    return AfterCommit(take_back, lambda _: ok({**to_fields(RecallAnswer(msg_id=found.message_id)), **_REGION}))


def _handle_in(text: str) -> _Handle:
    try:
        version, topic, broker, wall, message_id, due, place = base64.urlsafe_b64decode(text).decode().split(" ")
        found = _Handle(topic, broker, int(wall), message_id, int(due), int(place))
    except (ValueError, binascii.Error):
        raise Refusal(ResponseCode.ILLEGAL_OPERATION, _INVALID) from None
    is_ours = (
        version == "v1" and recall_handle(*found) == text and 0 <= found.place < 1 << 63 and found.due_ms < 1 << 62
    )
    if not is_ours:
        raise Refusal(ResponseCode.ILLEGAL_OPERATION, _INVALID)
    return found


def _check_message(node: Node, found: _Handle) -> None:
    """What lies there must be the message that the handle names: anybody can write a handle."""
    at = node.store.log.at_place(found.place)
    properties = {} if at is None or at[0].broker != node.name else decode(at[1]).properties
    if (properties.get(REAL_TOPIC), properties.get(UNIQUE_KEY)) != (found.topic, found.message_id):
        raise Refusal(ResponseCode.ILLEGAL_OPERATION, _INVALID)


def send_reply(request: Request) -> Answer:
    """SEND_REPLY_MESSAGE (324): a reply, handed on to the client that asked (326); answered when that has taken it.

    Differences: replies are not stored, as by a RocketMQ with storeReplyMessageEnable=false.
    """
    return _reply(request, request.header(SendRequest))


def send_reply_v2(request: Request) -> Answer:
    """SEND_REPLY_MESSAGE_V2 (325): as 324, with the header's names cut to one letter.

    Differences: those of 324.
    """
    return _reply(request, request.header(SendRequestV2))


_REPLY_TO, _PUSHED_AT = "REPLY_TO_CLIENT", "PUSH_REPLY_TIME"
_REPLY_TIMEOUT_MS = 10_000


def _reply(request: Request, header: SendRequest | SendRequestV2) -> Relay | RemotingCommand:
    """0 where the requester took it; 1, in RocketMQ's words, where it is not connected, refuses or says nothing."""
    node, body = request.node, bytes(request.command.body)
    try:
        _, number = check_send(request, sent_of(header))
        check_body(node, body, header.properties or "")
    except Refusal as refusal:
        return refuse(refusal.code, refusal.remark, ANSWER_EXTRAS)
    properties = texts.decode(header.properties or "")
    client_id = properties.get(_REPLY_TO)
    if client_id is None:
        return _not_replied(f"reply message properties[{_REPLY_TO}] is null")
    member = node.members.producer(client_id)
    if member is None:
        return _not_replied(f"push reply message fail, channel of <{bare(client_id)}> not found.")
    properties |= ANSWER_EXTRAS  # as on a message that is stored
    properties[_PUSHED_AT] = str(node.world.clock.now_ms())
    push = _push(node, request, header, texts.encode(properties), body)
    return Relay(((member.client, push),), _REPLY_TIMEOUT_MS, partial(_replied, client_id, number))


def _push(
    node: Node, request: Request, header: SendRequest | SendRequestV2, properties: str, body: bytes
) -> RemotingCommand:
    push = PushReplyRequest(
        producer_group=header.producer_group,
        topic=header.topic,
        default_topic=header.default_topic,
        default_topic_queue_nums=header.default_topic_queue_nums,
        queue_id=header.queue_id,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        flag=header.flag,
        born_host=request.client.peer,
        store_host=node.address,
        store_timestamp=node.world.clock.now_ms(),
        properties=properties,
        reconsume_times=header.reconsume_times or 0,
        unit_mode=bool(header.unit_mode),
    )
    return RemotingCommand(PushReplyRequest.CODE, to_fields(push), body)


def _replied(client_id: str, number: int, answers: list[RemotingCommand | None]) -> RemotingCommand:
    said = answers[0]
    if said is None or said.code != ResponseCode.SUCCESS:
        return _not_replied(f"push reply message to {bare(client_id)}fail.")
    return ok({"msgId": "0", "queueId": str(number), "queueOffset": "0", **ANSWER_EXTRAS})


def _not_replied(remark: str) -> RemotingCommand:
    return refuse(ResponseCode.SYSTEM_ERROR, remark, ANSWER_EXTRAS)
