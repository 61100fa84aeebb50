"""Checks: a broker asks how a transaction ended, of any member of its producer group; the group's function answers.

What is asked while many functions run waits for its turn. What is too much, or what nobody here knows, is not answered:
it is asked again, but not for ever. A question about a block that runs here needs no function: "unknown" is the truth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import NamedTuple, Protocol
from weakref import WeakValueDictionary

import structlog

from framework.declare.transactions import TransactionCheck, TransactionState
from framework.errors import ProtocolError, shorten
from framework.hooks.failures import plugin_failure_awaited, raised
from framework.mistakes import TransactionWrong
from framework.model.message import Message
from framework.model.namespaces import unwrapping, wrap
from framework.model.queue import MessageQueue
from framework.net.channel import Channel
from framework.net.task_tree import TaskTree
from framework.ports import Workers
from framework.wire import stored
from framework.wire.command import ONE_WAY_BIT, RemotingCommand
from framework.wire.fields import from_fields, to_fields
from framework.wire.requests.transaction import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    CheckTransactionRequest,
    EndTransactionRequest,
)

log = structlog.get_logger()

PRODUCER_GROUP = "PGROUP"
# Functions that run at once; Java has one thread.
RUNNING_MAX = 32
# Questions that wait for their turn, as in Java's client, and what their messages may take. A broker gives up what was
# asked about fifteen times in vain.
WAITING_MAX = 2_000
WAITING_BYTES_MAX = 64 * 1024 * 1024
# Of an async function, which is cancelled then: else a store that hangs would take all places.
SECONDS_MAX = 60.0
ENDS = {TransactionState.COMMIT: COMMIT, TransactionState.ROLLBACK: ROLLBACK, TransactionState.UNKNOWN: UNKNOWN}


class RunningBlock(Protocol):
    """A transaction whose block runs."""

    def moved(self, broker: str | None, place: int, offset: int) -> None:
        """Its half message lies here now: RocketMQ stores it anew for each question, and the end of another place
        would leave this one open, to be asked about and delivered once more.
        """
        ...


class _Question(NamedTuple):
    channel: Channel
    header: CheckTransactionRequest
    group: str
    message: Message


class Checks:
    """The check functions of one cluster's producers, by their groups as the cluster calls them."""

    def __init__(self, workers: Workers, namespace: str = "") -> None:
        self._workers, self._namespace = workers, namespace
        self._checks: dict[str, tuple[TransactionCheck, str]] = {}
        self._tree = TaskTree()
        self._running: dict[tuple[str, str], _Question] = {}
        """Group and message id -> the newest question: a stock broker asks about another half message each time."""
        self._waiting: dict[tuple[str, str], _Question] = {}
        self._waiting_bytes, self._is_full = 0, False
        self.at_work: WeakValueDictionary[str, RunningBlock] = WeakValueDictionary()
        """Message id -> the block that runs in this process; one that was lost on its way is none any more."""
        self.answered = 0
        """Questions that were answered with an end, "unknown" included."""

    def add(self, check: TransactionCheck, namespace: str | None = None) -> str:
        """Have this function answer for its group, which has no other; the group as the cluster calls it."""
        namespace = self._namespace if namespace is None else namespace
        group = wrap(namespace, check.group)
        known = self._checks.get(group)
        if known is not None and known[0] is not check:
            raise TransactionWrong(
                f"producer group {group!r} has two transaction checks, {known[0].name} and {check.name}; keep one"
            )
        self._checks[group] = (check, namespace)
        return group

    def __contains__(self, group: str) -> bool:
        return group in self._checks

    def take(self, channel: Channel, command: RemotingCommand) -> None:
        """A broker's question. Called on the connection's path: it starts the work and returns."""
        header = from_fields(CheckTransactionRequest, command.fields)
        message = _half_in(command.body, header)
        group = message.properties.get(PRODUCER_GROUP, "")
        if (block := self.at_work.get(message.message_id)) is not None:
            block.moved(header.broker_name, header.commit_log_offset, header.tran_state_table_offset)
            self._answer(_Question(channel, header, group, message), TransactionState.UNKNOWN)
            return
        question, key = _Question(channel, header, group, message), (group, message.message_id)
        if group not in self._checks:
            self._leave(question, "no check function here")
        elif key in self._running:
            self._running[key] = question
            self._leave(question, "the check function has not answered the question before")
        elif key in self._waiting:
            self._waiting[key] = question
        elif len(self._running) < RUNNING_MAX:
            self._begin(key, question)
        elif len(self._waiting) < WAITING_MAX and self._waiting_bytes < WAITING_BYTES_MAX:
            self._waiting[key] = question
            self._waiting_bytes += len(command.body)
        elif not self._is_full:
            self._is_full = True
            self._leave(question, f"{len(self._waiting)} questions wait already")

    def _leave(self, question: _Question, reason: str) -> None:
        log.warning("transaction check not answered", group=question.group, peer=question.channel.peer, reason=reason)

    def _begin(self, key: tuple[str, str], question: _Question) -> None:
        self._running[key] = question
        self._tree.start(self._decide(key, question), name=f"transaction check {question.group}")

    async def _decide(self, key: tuple[str, str], question: _Question) -> None:
        check, namespace = self._checks[question.group]
        try:
            seen = unwrapping(namespace)(question.message) if namespace else question.message
            state, reason = await self._asked(check, seen)
        finally:
            newest = self._running.pop(key)
            self._next()
        self._answer(newest, state, reason)

    def _next(self) -> None:
        while self._waiting and len(self._running) < RUNNING_MAX:
            key = next(iter(self._waiting))
            self._begin(key, self._waiting.pop(key))
        if not self._waiting:
            self._waiting_bytes, self._is_full = 0, False

    def _answer(self, question: _Question, state: TransactionState, reason: str | None = None) -> None:
        channel, header, group, message = question
        self.answered += 1
        log.info("transaction checked", group=group, message_id=message.message_id, state=str(state))
        end = EndTransactionRequest(
            producer_group=group,
            tran_state_table_offset=header.tran_state_table_offset,
            commit_log_offset=header.commit_log_offset,
            commit_or_rollback=ENDS[state],
            msg_id=message.message_id,
            topic=header.topic,
            transaction_id=header.transaction_id,
            from_transaction_check=True,
            broker_name=header.broker_name,
        )
        # One-way, as Java's: an answer that is lost is asked for again.
        channel.send(RemotingCommand(EndTransactionRequest.CODE, to_fields(end), flag=ONE_WAY_BIT, remark=reason))

    async def _asked(self, check: TransactionCheck, message: Message) -> tuple[TransactionState, str | None]:
        """What the function says; "unknown" where it fails, takes too long or says something else."""
        limit: asyncio.Timeout | None = None
        try:
            said = check(message) if check.is_async else await self._workers.run(lambda: check(message))
            if isinstance(said, Awaitable):
                async with asyncio.timeout(SECONDS_MAX) as limit:
                    said = await said
            return TransactionState(str(said)), None
        except BaseException as error:  # noqa: BLE001 - border: the user's function
            plugin_failure_awaited(error)
            is_over = limit is not None and limit.expired()
            reason = f"it took longer than {SECONDS_MAX:g} s" if is_over else raised(error)
            log.error(  # noqa: TRY400 - the reason says it, and the broker gets it, too
                "transaction check failed", group=check.group, message_id=message.message_id, reason=reason
            )
            return TransactionState.UNKNOWN, f"checkLocalTransactionState Exception: {shorten(reason, 300)}"

    async def close(self) -> None:
        """End the functions that still run; what waits is another member's."""
        self._waiting.clear()
        await self._tree.close()


def group_of(group: str, check: TransactionCheck | None) -> str:
    """The producer group that was named; that of the check function where only it names one; empty where none does."""
    if check is None:
        return group
    if not isinstance(check, TransactionCheck):
        raise TransactionWrong(f"Producer: check={shorten(check)}: give a function with @transaction_check(group)")
    if group and group != check.group:
        raise TransactionWrong(f"Producer: group {group!r}, but its check is that of {check.group!r}; name one group")
    return check.group


def _half_in(body: bytes, header: CheckTransactionRequest) -> Message:
    records = stored.decode_records(body)
    if len(records) != 1:
        raise ProtocolError(f"{len(records)} records came with a transaction check; one is asked about")
    place = MessageQueue(records[0].topic, header.broker_name or "", records[0].queue_id)
    return stored.decode(body, place)[0]
