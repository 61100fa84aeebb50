"""Transactions: ending one, and the broker asking how one ended."""

from __future__ import annotations

from framework.wire.codes import RequestCode
from framework.wire.fields import Int32, RequestHeader, wire

COMMIT = 8
ROLLBACK = 12
UNKNOWN = 0


class EndTransactionRequest(RequestHeader, code=RequestCode.END_TRANSACTION):
    """One-way; the command's remark may hold a local exception."""

    producer_group: str
    tran_state_table_offset: int
    commit_log_offset: int
    commit_or_rollback: Int32
    msg_id: str
    topic: str | None = None
    transaction_id: str | None = None
    from_transaction_check: bool = False
    broker_name: str | None = wire("bname", default=None)


class CheckTransactionRequest(RequestHeader, code=RequestCode.CHECK_TRANSACTION_STATE):
    """From the broker, one-way; the body is the half message's record. Answered by an EndTransactionRequest."""

    tran_state_table_offset: int
    commit_log_offset: int
    topic: str | None = None
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    broker_name: str | None = wire("bname", default=None)


class ResumeHalfMessageRequest(RequestHeader, code=RequestCode.RESUME_CHECK_HALF_MESSAGE):
    """Have a half message checked again."""

    topic: str | None = None
    msg_id: str | None = None
