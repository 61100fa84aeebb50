"""RetryRooms: whether brokers have room for what a group sends back (`retryQueueNums` above 0).

A stock broker whose group has none answers SUCCESS to a send-back and keeps nothing: the message is lost, and nobody is
told. So a group's settings are read before it joins and each 30 s after that, and once more behind a send-back that
succeeded; one reading serves all that succeeded before it was asked for. What a broker cannot say (4.x knows no such
question, rights may be lacking) holds nobody up. One that has said it before is asked up to three times; where it is
silent, the copy is in doubt and is asked for once more: rather twice than lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

import structlog

from framework.client.routes import RouteTable
from framework.errors import BrokerUnreachable, FrameworkError, Refused
from framework.net.pool import Pool
from framework.net.task_tree import TaskTree
from framework.wire import exchanges
from framework.wire.bodies.route import MASTER
from framework.wire.codes import RequestCode, ResponseCode, request_name

log = structlog.get_logger()

# What a broker answers that is busy; it may say more the next time.
_PASSING = (ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY)

READ_AGAIN_S = (0.3, 1.0)
"""Pauses before a reading without an answer is tried again. A broker that is started anew is back after seconds."""

Key = tuple[str, str]
"""A group and a broker's name."""


class RetryRooms:
    """Of one cluster; the only owner of what is known of retry queues."""

    def __init__(self, pool: Pool, routes: RouteTable, *, timeout_ms: int) -> None:
        self._pool, self._routes, self._timeout_ms = pool, routes, timeout_ms
        self._tree = TaskTree(on_error=lambda *_: None)  # whoever asked gets the error
        self._under_way: dict[Key, asyncio.Task[int]] = {}
        self._next: dict[Key, asyncio.Task[int]] = {}
        """Readings that wait for the one under way, and begin after whatever happened before."""
        self._mute: dict[Key, None] = {}
        """Where a broker could not say when it was asked last."""
        self._answered: dict[Key, None] = {}
        """Where a broker has said it at least once: it will again."""
        self._lacking: dict[Key, int] = {}
        """Where a send-back would be thrown away -> the group's `retryQueueNums` there."""

    def complaint(self, group: str, broker: str) -> str | None:
        """Why this broker would keep nothing of what the group sends back; None where it would, or does not say."""
        queues = self._lacking.get((group, broker))
        return None if queues is None else _complaint(group, broker, queues)

    def complaints(self, group: str) -> list[str]:
        """The same of all brokers."""
        return [_complaint(*key, queues) for key, queues in sorted(self._lacking.items()) if key[0] == group]

    async def look(self, groups: Iterable[tuple[str, Iterable[str]]]) -> None:
        """Read what these groups have at the brokers of these topics: each broker is asked once for each group."""
        wanted: dict[str, dict[str, None]] = {}
        for group, topics in groups:
            for broker in sorted({broker for topic in topics for broker in self._routes.brokers_of(topic)}):
                wanted.setdefault(broker, {})[group] = None
        for group, broker in list(self._lacking):
            if self._routes.find(broker, MASTER) is None:
                del self._lacking[group, broker]  # it is gone for good, and its groups with it
        looking = [
            self._tree.start(self._look_at(broker, asked), name=f"retry queues at {broker}")
            for broker, asked in sorted(wanted.items())
        ]
        for task in looking:
            await task

    async def _look_at(self, broker: str, groups: Iterable[str]) -> None:
        for group in groups:
            try:
                await self._read((group, broker))
            except BrokerUnreachable:
                return  # the next round asks again
            except FrameworkError as error:
                log.debug("group settings not read", group=group, broker=broker, reason=str(error))

    async def confirm(self, group: str, broker: str) -> None:
        """Raise Refused where nobody kept what was just answered with SUCCESS; BrokerUnreachable if it may be so."""
        if (group, broker) in self._mute:
            return
        key = group, broker
        reading = self._next.get(key)
        if reading is None:
            reading = self._next[key] = self._tree.start(self._read_next(key), name=f"retry queues {group} {broker}")
        try:
            queues = await asyncio.shield(reading)
        except BrokerUnreachable:
            if key in self._answered:
                raise
            return
        except FrameworkError:
            return  # it answers, and cannot say: asking for a second copy would make one, and each time anew
        if queues <= 0:
            request = request_name(RequestCode.CONSUMER_SEND_MSG_BACK)
            raise Refused(ResponseCode.NO_PERMISSION, _complaint(*key, queues), request=request, peer=broker)

    async def _read_next(self, key: Key) -> int:
        """A reading that begins after now: what is under way may have been answered before."""
        before = self._under_way.get(key)
        if before is not None:
            with suppress(FrameworkError):
                await asyncio.shield(before)
        self._under_way[key] = self._next.pop(key)
        try:
            for pause_s in READ_AGAIN_S if key in self._answered else ():
                with suppress(BrokerUnreachable):
                    return await self._read(key)
                await asyncio.sleep(pause_s)
            return await self._read(key)
        finally:
            del self._under_way[key]

    async def _read(self, key: Key) -> int:
        group, broker = key
        asking = exchanges.group_config(group)
        address = self._routes.address_of(broker)
        try:
            answer = await self._pool.request(address, asking.request(), timeout_ms=self._timeout_ms)
            config = asking.result(answer, broker)
        except Refused as error:
            if error.code not in _PASSING:
                self._mute[key] = None
            raise
        self._mute.pop(key, None)
        self._answered[key] = None
        self._put(key, config.retry_queues)
        return config.retry_queues

    def _put(self, key: Key, queues: int) -> None:
        before = self._lacking.pop(key, None)
        if queues <= 0:
            self._lacking[key] = queues
        if queues <= 0 and before is None:
            log.error("retry queue missing", group=key[0], broker=key[1], reason=_complaint(*key, queues))
        elif queues > 0 and before is not None:
            log.info("retry queue recovered", group=key[0], broker=key[1])

    async def close(self) -> None:
        await self._tree.close()


def _complaint(group: str, broker: str, queues: int) -> str:
    return (
        f"group {group}: retryQueueNums is {queues} at broker {broker}, which would lose each message that fails; "
        f"`framework-app doctor {group}` has the command that sets it"
    )
