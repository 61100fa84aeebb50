"""Transactions: ending one, and the broker asking how one ended."""

from __future__ import annotations

from typing import ClassVar

from framework.wire.codes import RequestCode
from framework.wire.fields import Int32, header, wire

COMMIT = 8
ROLLBACK = 12
UNKNOWN = 0


@header
class EndTransactionRequest:
    """One-way; the command's remark may hold a local exception."""

    CODE: ClassVar = RequestCode.END_TRANSACTION
    producer_group: str
    tran_state_table_offset: int
    commit_log_offset: int
    commit_or_rollback: Int32
    msg_id: str
    topic: str | None = None
    transaction_id: str | None = None
    from_transaction_check: bool = False
    broker_name: str | None = wire("bname", default=None)


@header
class CheckTransactionRequest:
    """From the broker, one-way; the body is the half message's record. Answered by an EndTransactionRequest."""

    CODE: ClassVar = RequestCode.CHECK_TRANSACTION_STATE
    tran_state_table_offset: int
    commit_log_offset: int
    topic: str | None = None
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    broker_name: str | None = wire("bname", default=None)


@header
class ResumeHalfMessageRequest:
    """Have a half message checked again."""

    CODE: ClassVar = RequestCode.RESUME_CHECK_HALF_MESSAGE
    topic: str | None = None
    msg_id: str | None = None
