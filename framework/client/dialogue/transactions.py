"""A transaction: a message that consumers get if, and only if, a local transaction is committed.

The half message goes to a broker first, which shows it to nobody. Then the local transaction runs, and its end is told.
A crash in between leaves the half message at the broker, which asks a member of the producer group how it ended.

The end is told once. RocketMQ stores a second message for a second commit, so one whose answer is lost is left to the
broker's check; it is never repeated.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import structlog

from framework.client.dialogue.halves import HalfMessage, Preparing, end, prepare, refuse_delay
from framework.client.outgoing import SendResult
from framework.declare.transactions import TransactionState
from framework.errors import FrameworkError, Refused, shorten
from framework.hooks.failures import raised
from framework.mistakes import TransactionWrong
from framework.model.message import Message
from framework.model.namespaces import wrap

log = structlog.get_logger()


class TransactionBlock:
    """`async with producer.transaction(message) as transaction:` around the local one.

    Leaving the block commits, an exception rolls back and goes on; what the block has said by `commit`, `rollback` or
    `unknown` stands, however it ends. A cancellation, or an end of the process, leaves it open: whether the local
    transaction was committed by then is known to your store, which the check looks into.
    """

    def __init__(self, producer: Preparing, message: Message, timeout: str | float | None = None) -> None:
        self._producer, self._message, self._timeout = producer, message, timeout
        self._wish: TransactionState | None = None
        self._prepared: SendResult | None = None
        self._half: HalfMessage | None = None
        self.state: TransactionState | None = None
        """How it ended as far as the broker has confirmed it; None while it is open, or left to a check."""

    @property
    def message_id(self) -> str:
        """The message's id, also on the committed message: note it in your store if the check is to find it there."""
        if self._prepared is None:
            raise TransactionWrong("transaction: it has an id inside its `async with` block")
        return self._prepared.message_id

    def commit(self) -> None:
        """Have the end of the block commit, also by an exception: your transaction is committed."""
        self._wish = TransactionState.COMMIT

    def rollback(self) -> None:
        """Have the end of the block roll back, without an exception."""
        self._wish = TransactionState.ROLLBACK

    def unknown(self) -> None:
        """Have the end of the block say nothing, also by an exception: the broker asks the check function later.

        Say it before what may fail though it was done, as the commit of a database whose connection is lost meanwhile;
        and `commit` behind it.
        """
        self._wish = TransactionState.UNKNOWN

    async def __aenter__(self) -> Self:
        producer = self._producer
        if self._prepared is not None:
            raise TransactionWrong("transaction: it was begun already; make another one for another message")
        if producer.group not in producer.cluster.checks:
            raise TransactionWrong(
                f"transaction of producer group {producer.group!r}: it has no check function, so a crash would leave "
                f"the message undecided; write @transaction_check({producer.group!r}) and give it to "
                f"Producer(check=...)"
            )
        refuse_delay(self._message)
        await producer.cluster.routes.route(wrap(producer.namespace, self._message.topic))
        await producer.cluster.introductions.join(producer.group)
        prepared, self._half = await prepare(producer, self._message, timeout=self._timeout)
        self._prepared = prepared
        if prepared.code:  # as Java: what is not on a disk or a replica yet is no ground to build on
            await self._end(TransactionState.ROLLBACK)
            raise Refused(
                prepared.code, "the half message is not durable yet; it was rolled back",
                request=f"transaction on {self._message.topic}", peer=prepared.queue.broker,
            )  # fmt: skip
        producer.cluster.checks.at_work[prepared.message_id] = self
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        remark = None if error is None else f"executeLocalTransactionBranch exception: {shorten(raised(error), 250)}"
        try:
            await self._end(self.end_by(error), remark)
        finally:
            self.leave()

    def leave(self) -> None:
        """The block is over: from now on the check function is asked."""
        self._producer.cluster.checks.at_work.pop(self.message_id, None)

    def moved(self, broker: str | None, place: int, offset: int) -> None:
        """By the broker that asks; another one may ask about a message of the same id that was sent before."""
        assert self._half is not None, "what was not begun is not asked about"
        if broker in {None, self._half.queue.broker}:
            self._half = self._half._replace(place=place, offset=offset)

    def end_by(self, error: BaseException | None) -> TransactionState:
        """How it is to end if the block ends by this."""
        if error is not None and not isinstance(error, Exception):
            return TransactionState.UNKNOWN
        return self._wish or (TransactionState.COMMIT if error is None else TransactionState.ROLLBACK)

    async def _end(self, state: TransactionState, remark: str | None = None) -> None:
        """Tell the broker, and hear that it is so. What it does not confirm is the check's affair."""
        if state is TransactionState.UNKNOWN:
            return
        half, producer = self._half, self._producer
        assert half is not None, "what was not begun has no end"
        try:
            await end(producer, half, state, remark)
        except FrameworkError as failure:
            self.left(state, failure)
        else:
            self.state = state

    def left(self, state: TransactionState, failure: FrameworkError) -> None:
        """Say that nobody has confirmed this end, and who decides."""
        log.warning(
            "transaction end not confirmed",
            group=self._producer.group, topic=self._message.topic, message_id=self.message_id, state=str(state),
            reason=f"{failure}; if it has not ended, the check decides",
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<TransactionBlock on {self._message.topic}: {self.state or 'open'}>"
