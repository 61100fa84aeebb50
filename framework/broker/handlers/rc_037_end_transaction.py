"""END_TRANSACTION (37): a producer says how a transaction ended; a commit makes the half message a whole one.

Differences: a transaction ends once: the same end again changes nothing and is answered with 0, the other with 1, where
RocketMQ stores a second message. A request that waits for an answer gets it when the end is on disk.
"""

from __future__ import annotations

from dataclasses import replace

from framework.broker.delay_wishes import DelayWish, wish_of
from framework.broker.node import Node
from framework.broker.records import decode
from framework.broker.request import AfterCommit, Answer, Refusal, Request, ok, refuse
from framework.broker.sending import Planned, write, written
from framework.broker.store import halves
from framework.broker.store.halves import Half
from framework.broker.store.writer import Transaction
from framework.broker.transactions import REAL_QUEUE, REAL_TOPIC, whole_of
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.requests.transaction import COMMIT, ROLLBACK, EndTransactionRequest
from framework.wire.stored import Record

_COMMITTED_BITS = 0x8
_WORDS = {halves.COMMITTED: "committed", halves.ROLLED_BACK: "rolled back"}


def handle(request: Request) -> Answer:
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
        return wish_of(node, whole.properties)
    except Refusal:
        return None
