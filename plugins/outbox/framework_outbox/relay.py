"""Relay: sends the rows of the table, at least once, and in order for each key.

It claims rows for a time, sends them, and notes the results. If it is killed it loses nothing: when its claim runs out,
the rows are taken over, by itself after a restart or by another relay, and what was sent but not noted is sent once
more with the same message id. It sends no row whose claim might run out before the answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import structlog

from framework import marks
from framework.errors import ConfigurationError, FrameworkError, Refused
from framework.mistakes import MessageWrong, NameWrong
from framework.model.message import Message
from framework_outbox.rows import Row
from framework_outbox.settings import OutboxSettings
from framework_outbox.table import Backlog, Failure, Table, TableError

log = structlog.get_logger()
T = TypeVar("T")

MESSAGE_ILLEGAL = 13  # the broker's word for a message that it will never take
SWEEP_SECONDS = 10.0
COUNT_SECONDS = 10.0
"""How often what waits is counted, for metrics."""
PAUSE_MAX_SECONDS = 5.0
"""While the database or every broker is away, each look costs a time-out: so often, and no oftener."""
REASON_MAX = 300


class Relay:
    """One an application. `send` sends a message to the queue of its order key, or to any."""

    def __init__(
        self,
        table: Table,
        settings: OutboxSettings,
        name: str,
        *,
        send: Callable[[Message], Awaitable[object]],
        in_thread: Callable[[Callable[[], Any]], Awaitable[Any]],
        monotonic: Callable[[], float],
    ) -> None:
        self._table, self._settings, self._name = table, settings, name
        self._send, self._in_thread, self._monotonic = send, in_thread, monotonic
        self._bell = asyncio.Event()
        self._is_stopping = False
        self._swept = -SWEEP_SECONDS
        self._table_trouble = _Trouble("outbox table unavailable", str(table))
        self._send_trouble = _Trouble("outbox sending failed", str(table))
        self.sent = 0
        """Stored by a broker, and noted."""
        self.failed = 0
        """Attempts that ended otherwise; their rows are tried again, or given up."""
        self._counted = -COUNT_SECONDS
        self.backlog = Backlog()
        """Of the whole table, whoever sends it, as it was counted last."""
        self.table_failures = 0
        """Looks that failed before anything could be sent: the table did not answer, or not as it should."""

    def wake(self) -> None:
        """Look now: something was written."""
        self._bell.set()

    def stop(self) -> None:
        """End behind what is under way."""
        self._is_stopping = True
        self._bell.set()

    async def run(self) -> None:
        """Until `stop`, and over all troubles that pass."""
        is_there, quiet = False, 0.0
        interval = self._settings.interval / 1000
        while not self._is_stopping:
            claimed = stored = 0
            is_bad = False
            try:
                if not is_there:
                    await self._in_thread(self._table.create)
                    is_there = True
                claimed, stored = await self.step()
                await self._count()
                self._table_trouble.over()
            except TableError as error:
                is_bad = True
                self._table_trouble.said(str(error))
            except Exception:  # border: whatever is wrong with one look, nobody else would send what waits
                is_bad = True
                log.exception("outbox poll failed", table=str(self._table))
            self.table_failures += is_bad
            if stored:
                quiet = 0.0
                continue
            quiet = min(max(2 * quiet, interval), PAUSE_MAX_SECONDS) if claimed or is_bad else interval
            if not self._is_stopping:
                await self._rest(quiet)
        await self._in_thread(self._table.close)

    async def _rest(self, seconds: float) -> None:
        self._bell.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._bell.wait()
        except TimeoutError:
            pass

    async def step(self) -> tuple[int, int]:
        """Claim once, send, note: how many were claimed, and how many of them are sent. Raises TableError."""
        settings, table = self._settings, self._table
        claimed_at = self._monotonic()
        rows: list[Row] = await self._in_thread(lambda: table.claim(self._name, settings.batch, settings.lease))
        await marks.stretched("rows of the outbox are claimed")
        if rows:
            pass_ = _Pass(rows, settings, claimed_at + (settings.lease - settings.timeout) / 1000)
            try:
                await asyncio.gather(*[
                    self._serve(pass_) for _ in range(min(settings.senders, len(pass_.lanes)))
                ])  # fmt: skip
            finally:
                # Also where the process cannot wait any longer: nobody should wait for claims that nobody holds.
                if marks.rarely("rows of the outbox are not noted"):
                    raise TableError("a table that failed")
                await marks.stretched("rows of the outbox are to be noted")
                await self._in_thread(
                    lambda: table.ended(self._name, pass_.sent, pass_.failed, pass_.left(), keeps=settings.keep > 0)
                )
                self.sent += len(pass_.sent)
                self.failed += len(pass_.failed)
            if pass_.sent:
                self._send_trouble.over()
            elif pass_.failed:
                self._send_trouble.said(pass_.failed[0].reason)
            return len(rows), len(pass_.sent)
        is_due = settings.keep and self._monotonic() - self._swept > SWEEP_SECONDS
        if is_due and not await self._in_thread(lambda: table.sweep(settings.keep)):
            self._swept = self._monotonic()
        return 0, 0

    async def _count(self) -> None:
        now = self._monotonic()
        if now - self._counted >= COUNT_SECONDS:
            self.backlog = await self._in_thread(self._table.backlog)
            self._counted = now

    async def _serve(self, work: _Pass) -> None:
        while work.lanes and not self._is_stopping:
            for row in work.lanes.popleft():
                if self._monotonic() > work.until or self._is_stopping:
                    return
                failure = await self._attempt(row)
                if failure is not None:
                    work.failed.append(failure)
                    break  # what follows it of its key waits for it
                work.sent.append(row.number)

    async def _attempt(self, row: Row) -> Failure | None:
        settings = self._settings
        try:
            message = row.message
        except (ValueError, TypeError, ConfigurationError) as error:  # written by somebody else's SQL
            return self._refused(row, error)
        try:
            async with asyncio.timeout(settings.timeout / 1000):
                await marks.stretched("a row of the outbox is due")
                await self._send(message)
                await marks.stretched("a row of the outbox is stored")
        except (MessageWrong, NameWrong) as error:
            # Where nothing was ever sent, the mistake may be the cluster's settings' as well.
            if self.sent:
                return self._refused(row, error)
            reason = str(error)
        except Refused as error:
            if error.code == MESSAGE_ILLEGAL:
                return self._refused(row, error)
            reason = str(error)
        except TimeoutError:
            reason = f"no answer within {settings.timeout} ms"
        except FrameworkError as error:  # also a topic that is missing, or a producer that has been stopped
            reason = str(error)
        except Exception as error:  # border: what nobody thought of must not hold the others of its pass
            log.exception("outbox message failed", row=row.number, message_id=row.message_id, topic=row.topic)
            reason = f"{type(error).__name__}: {error}"
        else:
            return None
        wait_ms = min(settings.retry_first << min(row.attempts, 30), settings.retry_max)
        return Failure(row.number, reason[:REASON_MAX], wait_ms)

    def _refused(self, row: Row, error: Exception) -> Failure:
        log.error(
            "outbox message refused",
            row=row.number, message_id=row.message_id, topic=row.topic, key=row.key,
            remedy=f"framework-app outbox discard --id {row.number}", reason=str(error)[:REASON_MAX],
        )  # fmt: skip
        return Failure(row.number, str(error)[:REASON_MAX], 0, is_final=True)

    def __repr__(self) -> str:
        return f"<Relay {self._name} of {self._table}: {self.sent} sent>"


class _Trouble:
    """Something that is said when it begins and when it is over, and not each time."""

    def __init__(self, event: str, table: str) -> None:
        self._event, self._table, self._is_there = event, table, False

    def said(self, reason: str) -> None:
        if not self._is_there:
            self._is_there = True
            log.warning(self._event, table=self._table, reason=reason)

    def over(self) -> None:
        if self._is_there:
            self._is_there = False
            log.info("outbox recovered", table=self._table)


class _Pass:
    """Rows that were claimed together: a lane for each key, and one for each row without."""

    def __init__(self, rows: Sequence[Row], settings: OutboxSettings, until: float) -> None:
        self.until = until
        """When nothing is begun any more, for the claim might be over before the answer comes."""
        self._rows = rows
        lanes: dict[object, list[Row]] = {}
        for row in rows:
            lanes.setdefault(row.number if row.key is None else row.key, []).append(row)
        self.lanes = deque(lanes.values())
        self.sent: list[int] = []
        self.failed: list[Failure] = []

    def left(self) -> list[int]:
        """Neither sent nor tried: they stay as they were."""
        ended = {*self.sent, *(each.number for each in self.failed)}
        return [row.number for row in self._rows if row.number not in ended]
