"""HeartbeatLoop: keeps every broker told who we are and what we want; one per application.

At once on a new connection, on a changed subscription or when a broker says that it does not know us; else each 30 s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import structlog

from framework.core import limits
from framework.core.backoff import Backoff
from framework.errors import FrameworkError
from framework.net.task_tree import TaskTree
from framework.net.wakeup import Wakeup
from framework.ports import Chance, Clock
from framework.wire.bodies.heartbeat import Heartbeat

log = structlog.get_logger()


class Beats(Protocol):
    """The calls of the client that heartbeats need."""

    def addresses(self) -> list[str]: ...
    async def heartbeat(self, address: str, heartbeat: Heartbeat) -> object: ...


class HeartbeatLoop:
    """Asks `describe` for the application's heartbeat each time, so that it is never stale."""

    def __init__(
        self,
        brokers: Beats,
        describe: Callable[[], Heartbeat],
        clock: Clock,
        chance: Chance,
        on_accepted: Callable[[str], None],
    ) -> None:
        self._brokers, self._describe, self._on_accepted = brokers, describe, on_accepted
        self._clock, self._chance = clock, chance
        self._bell = Wakeup()
        self._due_ms: dict[str, int] = {}
        """Address -> when its next heartbeat is due; an address that is absent is due now."""
        self._failing: dict[str, Backoff] = {}

    def now(self, address: str | None = None) -> None:
        """A heartbeat is due at once: to one broker, or to all."""
        if address is None:
            self._due_ms.clear()
        else:
            self._due_ms.pop(address, None)
        self._bell.ring()

    async def run(self) -> None:
        tree = TaskTree()
        try:
            while True:
                now_ms = self._clock.monotonic_ms()
                addresses = self._brokers.addresses()
                for address in addresses:
                    if self._due_ms.get(address, 0) <= now_ms:
                        # Set before the sending: a request that takes long must not be doubled by the next round.
                        self._due_ms[address] = now_ms + limits.HEARTBEAT_MS
                        tree.start(self._beat(address), name=f"heartbeat {address}")
                for gone in [address for address in self._due_ms if address not in addresses]:
                    del self._due_ms[gone]
                until_ms = min(self._due_ms.values(), default=now_ms + limits.REBALANCE_SOON_MS)
                await self._bell.wait((max(until_ms, now_ms) + 1) / 1000)
        finally:
            await tree.close()

    async def _beat(self, address: str) -> None:
        try:
            await self._brokers.heartbeat(address, self._describe())
        except FrameworkError as error:
            backoff = self._failing.setdefault(address, Backoff(limits.FAILURE_DELAY_MS, limits.HEARTBEAT_MS))
            is_first = not backoff.failures
            self._due_ms[address] = self._clock.monotonic_ms() + backoff.failed(self._chance.random())
            self._bell.ring()
            if is_first:
                log.warning("heartbeat failed", broker=address, reason=str(error))
            return
        if address in self._failing:
            del self._failing[address]
            log.info("heartbeat recovered", broker=address)
        self._on_accepted(address)
