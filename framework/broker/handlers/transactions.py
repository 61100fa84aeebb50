"""Transactions: how they ended, and asking once more."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from framework.broker.answers import AfterCommit, Answer, InSteps, Refusal, ok, refuse
from framework.broker.delays import DelayWish
from framework.broker.node import Node
from framework.broker.records import decode
from framework.broker.request import Request
from framework.broker.sending import Planned, write, written
from framework.broker.store import halves
from framework.broker.store.halves import Half
from framework.broker.store.keys import key_hash
from framework.broker.store.writer import Transaction
from framework.broker.transactions import PRODUCER_GROUP, REAL_QUEUE, REAL_TOPIC, whole_of
from framework.errors import shorten
from framework.model.message import UNIQUE_KEY
from framework.model.reserved import GIVEN_UP_TOPIC, HALF_TOPIC
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.ids import parse_offset_message_id
from framework.wire.requests.transaction import COMMIT, ROLLBACK, EndTransactionRequest, ResumeHalfMessageRequest
from framework.wire.stored import Record

_COMMITTED_BITS = 0x8
_WORDS = {halves.COMMITTED: "committed", halves.ROLLED_BACK: "rolled back"}


def end_transaction(request: Request) -> Answer:
    """END_TRANSACTION (37): a producer says how a transaction ended; a commit makes the half message a whole one.

    Differences: a transaction ends once: the same end again changes nothing and is answered with 0, the other with 1,
    where RocketMQ stores a second message. A request that waits for an answer gets it when the end is on disk.
    """
    header = request.header(EndTransactionRequest)
    node = request.node
    if header.commit_or_rollback not in {COMMIT, ROLLBACK}:
        return ok()  # it is not known yet: the producers are asked again
    state = halves.COMMITTED if header.commit_or_rollback == COMMIT else halves.ROLLED_BACK

    def change(transaction: Transaction) -> Planned | RemotingCommand | None:
        half = halves.find(transaction.connection, node.name, header.commit_log_offset)
        record = None if half is None else halves.record_of(transaction.connection, half)
        if half is None or (record is None and half.state not in _WORDS):
            return _refused("Find prepared transaction message failed")
        if half.group != header.producer_group:
            return _refused("The producer group wrong")
        if half.queue_offset != header.tran_state_table_offset:
            return _refused("The transaction state table offset wrong")
        if half.state in _WORDS or record is None:
            is_same = half.state == state
            return None if is_same else _refused(f"the transaction is {_WORDS[half.state]} already")
        whole = whole_of(decode(record), half.checks)
        if not header.from_transaction_check and node.transactions.is_late(half, whole):
            return refuse(ResponseCode.ILLEGAL_OPERATION, "the transaction's own time is over, wait for a check")
        node.transactions.end(transaction, half, state)
        return _commit(node, transaction, half, whole) if state == halves.COMMITTED else None

    def answer(result: Planned | RemotingCommand | None) -> RemotingCommand:
        if isinstance(result, RemotingCommand):
            return result
        if result is not None:
            written(node, result)
        return ok()

    return AfterCommit(change, answer)


def _refused(remark: str) -> RemotingCommand:
    """In RocketMQ's words, where it has them."""
    return refuse(ResponseCode.SYSTEM_ERROR, remark)


def _commit(node: Node, transaction: Transaction, half: Half, whole: Record) -> Planned:
    properties = {name: text for name, text in whole.properties.items() if name not in {REAL_TOPIC, REAL_QUEUE}}
    whole = replace(
        whole, properties=properties, sys_flag=whole.sys_flag | _COMMITTED_BITS, prepared_transaction_offset=half.place
    )
    return write(node, whole, _wish(node, whole))(transaction)


def _wish(node: Node, whole: Record) -> DelayWish | None:
    """How long it waits from now on; one that asks for too long comes at once, for it cannot be refused any more."""
    try:
        return node.delays.wish_of(whole.properties)
    except Refusal:
        return None


_EVER_MS = 1 << 62


def resume_half_message(request: Request) -> Answer:
    """RESUME_CHECK_HALF_MESSAGE (323): a half message that was given up is asked about anew; 1 where there is none.

    Differences: the transaction itself is opened again, its checks counted from 0, and an ended one is refused
    with 1. RocketMQ puts a second half message beside it each time, also of a committed one: both are then
    delivered.
    """
    header = request.header(ResumeHalfMessageRequest)
    node = request.node
    place = parse_offset_message_id(header.msg_id or "")
    named = None if place is None else _half_at(node, place.commit_log_offset)
    if named is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no half message has the offset id {shorten(header.msg_id or '')}")
    return InSteps(_resumed(node, _half_behind(node, named)), is_write=True)


def _resumed(node: Node, half: Record) -> Generator[None, None, Answer]:
    is_delivered = yield from _is_delivered(node, half)

    def change(transaction: Transaction) -> int | None:
        known = halves.find(transaction.connection, node.name, half.commit_log_offset)
        if known is not None and known.state == halves.OPEN:
            halves.put(transaction.connection, known._replace(checks=0))
            return known.due_ms
        if is_delivered or (known is not None and known.state != halves.GIVEN_UP):
            return None
        return node.transactions.open_again(transaction, half).due_ms

    def answer(due_ms: int | None) -> RemotingCommand:
        if due_ms is None:
            return refuse(ResponseCode.SYSTEM_ERROR, "the transaction has ended already: nothing is asked about it")
        node.transactions.rounds.planned(due_ms)
        return ok()

    return AfterCommit(change, answer)


def _half_at(node: Node, place: int) -> Record | None:
    """The half message there, open or given up."""
    found = node.store.log.at_place(place)
    if found is None or found[0].broker != node.name or found[0].topic not in {HALF_TOPIC, GIVEN_UP_TOPIC}:
        return None
    message = decode(found[1])
    return message if PRODUCER_GROUP in message.properties else None


def _half_behind(node: Node, named: Record) -> Record:
    """Of one that was given up, the half message itself: its transaction is one, by whichever id it is named.

    Where retention has taken that away, the one that was given up stands for it.
    """
    if named.topic != GIVEN_UP_TOPIC:
        return named
    half = _half_at(node, named.prepared_transaction_offset)
    is_it = half is not None and half.topic == HALF_TOPIC and _names(half) == _names(named)
    return half if half is not None and is_it else named


def _names(message: Record) -> list[str | None]:
    return [message.properties.get(name) for name in (UNIQUE_KEY, PRODUCER_GROUP, REAL_TOPIC)]


def _is_delivered(node: Node, half: Record) -> Generator[None, None, bool]:
    """Whether its commit stands in the topic: how it ended is forgotten after an hour, the message is not."""
    topic, key = half.properties[REAL_TOPIC], half.properties.get(UNIQUE_KEY)
    if key is None:
        return False
    for found in node.store.log.with_key_hash(key_hash(topic, key), 0, _EVER_MS):
        yield
        if found is None:
            continue
        queue, data = found
        message = decode(data)
        is_it = (queue.broker, message.topic, message.properties.get(UNIQUE_KEY)) == (node.name, topic, key)
        if is_it and message.prepared_transaction_offset == half.commit_log_offset:
            return True
    return False
