"""HeartbeatLoop: tells every broker who we are and what we want; one per application.

At once on a new connection, on a changed subscription, or when a broker says that it does not know us; else every 30 s.

Every 30 s is enough for the built-in broker too: brokers find a dead member by its connection, one that hangs by 120 s
of silence, and a member that joins, leaves or changes says so at once.

Short heartbeats (RocketMQ's V2, off by default as in Java) carry a fingerprint instead of the subscriptions. They save
a few hundred bytes each 30 s, which pays with hundreds of topics. Only a heartbeat that is due by the clock is short,
and only to a broker that understands it and knows our subscriptions. A restarted stock broker takes a short one without
a word and then has a member without subscriptions; its connections are new, and the first heartbeat there is whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import structlog

from framework import marks
from framework.core import limits
from framework.core.backoff import Backoff
from framework.errors import FrameworkError, is_said
from framework.net.task_tree import TaskTree
from framework.net.wakeup import Wakeup
from framework.ports import Chance, Clock
from framework.wire.bodies.heartbeat import Heartbeat
from framework.wire.requests.group import HeartbeatAnswer

log = structlog.get_logger()


class Beats(Protocol):
    """The calls of the client that heartbeats need."""

    def addresses(self) -> list[str]: ...
    async def heartbeat(self, address: str, heartbeat: Heartbeat) -> HeartbeatAnswer: ...


class HeartbeatLoop:
    """Asks `describe` for the application's heartbeat each time, so that it is never stale."""

    def __init__(
        self,
        brokers: Beats,
        describe: Callable[[], Heartbeat],
        clock: Clock,
        chance: Chance,
        on_accepted: Callable[[str], None],
        *,
        shortens: bool = False,
    ) -> None:
        self._brokers, self._describe, self._on_accepted = brokers, describe, on_accepted
        self._shortens = shortens
        self._known: dict[str, int] = {}
        """Address -> the fingerprint by which the broker there knows what we want."""
        self._wishes = 0
        """How often somebody wished for a heartbeat: what was answered to one before may be forgotten since."""
        self._clock, self._chance = clock, chance
        self._bell = Wakeup()
        self._due_ms: dict[str, int] = {}
        """Address -> when its next heartbeat is due; an address that is absent is due now."""
        self._failing: dict[str, Backoff] = {}
        self._is_said: dict[str, bool] = {}
        """Whether their first failure needed no line of its own."""

    def now(self, address: str | None = None) -> None:
        """A heartbeat is due at once: to one broker, or to all."""
        self._wishes += 1
        if address is None:
            self._due_ms.clear()
            self._known.clear()
        else:
            self._due_ms.pop(address, None)
            self._known.pop(address, None)
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
                        self._due_ms[address] = now_ms + marks.limit("heartbeat period", limits.HEARTBEAT_MS)
                        tree.start(self._beat(address), name=f"heartbeat {address}")
                for gone in [address for address in self._due_ms if address not in addresses]:
                    del self._due_ms[gone]
                    self._known.pop(gone, None)
                until_ms = min(self._due_ms.values(), default=now_ms + limits.REBALANCE_SOON_MS)
                await self._bell.wait((max(until_ms, now_ms) + 1) / 1000)
        finally:
            await tree.close()

    async def _beat(self, address: str) -> None:
        sent, wishes = self._told(address), self._wishes
        try:
            await marks.stretched("a heartbeat is due")
            answer = await self._brokers.heartbeat(address, sent)
        except FrameworkError as error:
            self._known.pop(address, None)
            backoff = self._failing.setdefault(address, Backoff(limits.FAILURE_DELAY_MS, limits.HEARTBEAT_MS))
            is_first = not backoff.failures
            self._due_ms[address] = self._clock.monotonic_ms() + backoff.failed(self._chance.random())
            self._bell.ring()
            if is_first:
                self._is_said[address] = is_said(error)
                told = log.debug if is_said(error) else log.warning
                told("heartbeat failed", broker=address, reason=str(error))
            return
        if address in self._failing:
            del self._failing[address]
            (log.debug if self._is_said.pop(address) else log.info)("heartbeat recovered", broker=address)
        if sent.fingerprint:
            self._learn(address, sent, answer, is_current=wishes == self._wishes)
        self._on_accepted(address)

    def _told(self, address: str) -> Heartbeat:
        whole = self._describe()
        if not self._shortens:
            return whole
        fingerprint = whole.computed_fingerprint()
        if fingerprint and self._known.get(address) == fingerprint:
            return whole.shortened(fingerprint)
        return replace(whole, fingerprint=fingerprint)

    def _learn(self, address: str, sent: Heartbeat, answer: HeartbeatAnswer, *, is_current: bool) -> None:
        if not sent.is_without_subscriptions:
            if answer.supports_v2 and not answer.subscription_changed and is_current:
                self._known[address] = sent.fingerprint
        elif answer.subscription_changed and address in self._known:
            marks.sometimes("a short heartbeat was followed by a whole one")
            self.now(address)
