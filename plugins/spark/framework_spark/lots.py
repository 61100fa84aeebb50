"""The transactional sink: each micro-batch is a lot (`framework.Lots`), by the query's id and the batch's number.

Tasks prepare half messages, the driver's commit settles. Spark repeats an epoch whose commit it has not noted down: the
tasks of the repeated one send nothing where the lot is decided, and its commit brings the first one to its end. Each
process that works for the sink is a member of the producer group, and answers when a broker asks about a half message:
"unknown" until its lot is over, then "rollback".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from framework import FrameworkError, Lots, Message, Producer, transaction_check
from framework.errors import shorten
from framework_spark.mistakes import SparkMisused
from framework_spark.options import LotOptions, SinkOptions
from framework_spark.outgoing import ROW, Outgoing, check_row, connection_of, quiet_logs
from framework_spark.survey import warn

T = TypeVar("T")

KNOWN_MAX = 64
"""Queries that one process answers for without reading anew where they are."""


def prepared(options: SinkOptions, rows: Outgoing, name: str, lot: int) -> bytes:
    """On an executor: store all rows as half messages; what `settle` is to be given of them."""

    async def work(desk: _Desk) -> bytes:
        lots = desk.of(name)
        # Before the first lot there may be no records yet; the commit finds out.
        if (lot or desk.lots.record_topic) and await _is_decided(lots, lot, options):
            return b""
        return await lots.prepare(_checked(rows))

    return _run(options, work)


def _checked(rows: Outgoing) -> Iterator[Message]:
    for row in rows:
        check_row(row.message)
        yield row.message


def settle(options: SinkOptions, name: str, lot: int, given: Sequence[bytes]) -> None:
    """In the driver: have each row of the lot seen, once."""

    async def work(desk: _Desk) -> None:
        lots = desk.of(name)
        if not lot and not desk.lots.record_topic:
            await lots.create_records()
        if await _is_decided(lots, lot, options) and not any(given):
            warn(f"{_shown(name, lot, options)} was decided before: the rows of then count, and these are left out")
        await lots.settle(lot, [data for data in given if data])

    _run(options, work)


async def _is_decided(lots: Lots, lot: int, options: SinkOptions) -> bool:
    """SparkMisused where a newer one is: this one may have been written, or left out, which nobody can tell."""
    newest = await lots.newest()
    if newest > lot:
        assert options.lots is not None, "the sink is a transactional one"
        remedy = (
            "numbers only grow: write these rows under a higher one, or under another txnAppId"
            if options.lots.name
            else "its checkpoint was set back, or another query runs from a copy of it; start with a new "
            "checkpointLocation, and startingOffsets where it is to go on"
        )
        raise SparkMisused(f"sink: {_shown(lots.name, lot, options)} comes after {newest}, which is written; {remedy}")
    return newest == lot


def _shown(name: str, lot: int, options: SinkOptions) -> str:
    is_write = options.lots is not None and options.lots.name
    return f"txnVersion={lot} of txnAppId={shorten(name)}" if is_write else f"batch {lot} of query {name}"


def drop(options: SinkOptions, name: str, given: Sequence[bytes]) -> None:
    """In the driver: have none of these seen. What cannot be told now, brokers ask about."""

    async def work(desk: _Desk) -> None:
        await desk.of(name).drop([data for data in given if data])

    _run(options, work)


def _run(options: SinkOptions, work: Callable[[_Desk], Awaitable[T]]) -> T:
    async def within() -> T:
        async with desk_of(options) as desk:
            return await work(desk)

    quiet_logs()
    return asyncio.run(within())


@asynccontextmanager
async def desk_of(options: SinkOptions) -> AsyncIterator[_Desk]:
    """A member of the producer group, which answers brokers for as long as it is open."""
    assert options.lots is not None, "the sink is a transactional one"
    open_desks: list[_Desk] = []

    @transaction_check(options.group)
    async def check(message: Message) -> str:
        return await open_desks[0].answer(message)

    async with Producer(check=check, **connection_of(options)) as producer:
        desk = _Desk(producer, options.lots)
        open_desks.append(desk)
        yield desk


class _Desk:
    """The lots of all queries of one producer group, as far as this process is asked about them."""

    def __init__(self, producer: Producer, lots: LotOptions) -> None:
        self._producer, self.lots = producer, lots
        self._known: dict[str, Lots] = {}

    def of(self, name: str) -> Lots:
        if name not in self._known:
            if len(self._known) >= KNOWN_MAX:
                self._known.pop(next(iter(self._known)))
            self._known[name] = Lots(
                self._producer,
                name,
                records=self.lots.record_topic or f"spark-sink-{name}",
                unconfirmed=self.lots.unconfirmed_ms / 1000,
                patience=self.lots.patience_ms / 1000,
            )
        return self._known[name]

    async def answer(self, message: Message) -> str:
        """To a broker that asks about a half message."""
        try:
            name, lot, _, _ = message.properties[ROW].rsplit("/", 3)
            return await self.of(name).said_of(int(lot))
        except (FrameworkError, KeyError, ValueError):
            return "unknown"  # it is not ours, or its records cannot be read now; the broker asks again
