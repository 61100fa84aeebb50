"""Checks: a broker asks how a transaction ended, of any member of its producer group; the group's function answers.

What is asked while too many functions run is not answered, and neither is what nobody here knows: it is asked again.
"""

from __future__ import annotations

from collections.abc import Awaitable

import structlog

from framework.declare.transactions import TransactionCheck, TransactionState
from framework.errors import ProtocolError, shorten
from framework.hooks.failures import plugin_failure_awaited
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
# Questions of brokers that are answered at once; Java has one thread, and a queue of 2000 behind it.
RUNNING_MAX = 32
ENDS = {TransactionState.COMMIT: COMMIT, TransactionState.ROLLBACK: ROLLBACK, TransactionState.UNKNOWN: UNKNOWN}


class Checks:
    """The check functions of one cluster's producers, by their groups as the cluster calls them."""

    def __init__(self, workers: Workers, namespace: str = "") -> None:
        self._workers, self._namespace = workers, namespace
        self._checks: dict[str, tuple[TransactionCheck, str]] = {}
        self._tree = TaskTree()
        self._running = 0
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
        known = self._checks.get(group)
        if known is None or self._running >= RUNNING_MAX:
            reason = "no check function here" if known is None else f"{RUNNING_MAX} checks run already"
            log.warning("transaction check not answered", group=group, peer=channel.peer, reason=reason)
            return
        check, namespace = known
        self._running += 1
        seen = unwrapping(namespace)(message) if namespace else message
        self._tree.start(self._answer(channel, header, group, check, seen), name=f"transaction check {group}")

    async def _answer(
        self, channel: Channel, header: CheckTransactionRequest, group: str, check: TransactionCheck, message: Message
    ) -> None:
        try:
            state, reason = await self._asked(check, message)
        finally:
            self._running -= 1
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
        """What the function says; "unknown" where it fails or says something else."""
        try:
            said = check(message) if check.is_async else await self._workers.run(lambda: check(message))
            answer = await said if isinstance(said, Awaitable) else said
            return TransactionState(str(answer)), None
        except BaseException as error:  # noqa: BLE001 - border: the user's function
            plugin_failure_awaited(error)
            reason = f"{type(error).__name__}: {error}"
            log.error(  # noqa: TRY400 - the reason says it, and the broker gets it, too
                "transaction check failed", group=check.group, message_id=message.message_id, reason=reason
            )
            return TransactionState.UNKNOWN, f"checkLocalTransactionState Exception: {shorten(reason, 300)}"

    async def close(self) -> None:
        """End the functions that still run."""
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
