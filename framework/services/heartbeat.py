"""HeartbeatLoop: tells every broker who we are and what we want; one per application.

At once on a new connection, on a changed subscription, or when a broker says that it does not know us; else every 30 s.

A broker that takes none is told of here, for all groups: once, unless whoever makes connections has said so, and once a
minute until it does. So is that no broker is known.

Every 30 s is enough for the built-in broker too: brokers find a dead member by its connection, one that hangs by 120 s
of silence, and a member that joins, leaves or changes says so at once.

Short heartbeats (RocketMQ's V2, off by default as in Java) carry a fingerprint instead of the subscriptions. They save
a few hundred bytes each 30 s, which pays with hundreds of topics. Only a heartbeat that is due by the clock is short,
and only to a broker that understands it and knows our subscriptions. A restarted stock broker takes a short one without
a word and then has a member without subscriptions; its connections are new, and the first heartbeat there is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import structlog

from framework import marks
from framework.client.brokers import Brokers
from framework.core import limits
from framework.core.backoff import Backoff
from framework.errors import FrameworkError, is_said
from framework.net.task_tree import TaskTree
from framework.net.wakeup import Wakeup
from framework.ports import Chance, Clock
from framework.wire.bodies.heartbeat import Heartbeat
from framework.wire.requests.group import HeartbeatAnswer

log = structlog.get_logger()


SAY_AGAIN_MS = 60_000
SHOWN_MAX = 10
NONE_KNOWN = "no name server names a broker of these topics yet"


@dataclass(slots=True)
class _Failing:
    """A broker that takes no heartbeat."""

    since_ms: int
    backoff: Backoff = field(default_factory=lambda: Backoff(limits.FAILURE_DELAY_MS, limits.HEARTBEAT_MS))
    reason: str = ""
    is_said: bool = False
    """Whether its first failure needed no line of its own."""


class HeartbeatLoop:
    """Asks `describe` for the application's heartbeat each time, so that it is never stale."""

    def __init__(
        self,
        brokers: Brokers,
        describe: Callable[[], Heartbeat],
        clock: Clock,
        chance: Chance,
        on_accepted: Callable[[str], None],
        *,
        shortens: bool = False,
        why_none: Callable[[], FrameworkError | None] = lambda: None,
        nowhere: Callable[[], tuple[str, str]] = lambda: (NONE_KNOWN, "check the name servers"),
    ) -> None:
        """`why_none`: why name servers tell of no broker; None where they answer. Then `nowhere`, with the way out."""
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
        self._failing: dict[str, _Failing] = {}
        self._why_none, self._nowhere = why_none, nowhere
        self.trouble = ""
        """What keeps brokers from taking our heartbeat, with the way out; empty where nothing does."""
        self._none_since_ms: int | None = None
        """Since when no broker is known."""
        self._say_ms: int | None = None
        """When it is said again who takes no heartbeat; None while all do."""

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
                        self._due_ms[address] = now_ms + limits.HEARTBEAT_MS
                        tree.start(self._beat(address), name=f"heartbeat {address}")
                for gone in [address for address in self._due_ms if address not in addresses]:
                    del self._due_ms[gone]
                    self._known.pop(gone, None)
                    self._failing.pop(gone, None)
                self._say(addresses, now_ms)
                until_ms = min(self._due_ms.values(), default=now_ms + limits.REBALANCE_SOON_MS)
                if self._say_ms is not None:
                    until_ms = min(until_ms, self._say_ms)
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
            now_ms, is_first = self._clock.monotonic_ms(), address not in self._failing
            failing = self._failing.setdefault(address, _Failing(now_ms))
            failing.reason = str(error)
            delay_ms = failing.backoff.failed(self._chance.random())
            if is_said(error):  # to ask costs nothing while the address is left alone, and at a start nobody else asks
                delay_ms = min(delay_ms, limits.REBALANCE_AGAIN_MAX_MS)
            self._due_ms[address] = now_ms + delay_ms
            self._bell.ring()
            if is_first:
                failing.is_said = is_said(error)
                told = log.debug if failing.is_said else log.warning
                told("heartbeat failed", broker=address, reason=str(error))
            return
        if (failed := self._failing.pop(address, None)) is not None:
            after_ms = self._clock.monotonic_ms() - failed.since_ms
            (log.debug if failed.is_said else log.info)("heartbeat recovered", broker=address, after_ms=after_ms)
        if sent.fingerprint:
            self._learn(address, sent, answer, is_current=wishes == self._wishes)
        self._on_accepted(address)

    def _say(self, addresses: Sequence[str], now_ms: int) -> None:
        """Who takes no heartbeat, in one line a minute. What has just begun was said where it arose, but for this: that
        name servers answer and tell of no broker.
        """
        away = sorted((each.since_ms, address) for address, each in self._failing.items())
        is_unsaid, remedy = False, "check the brokers, and whether they can be reached from here"
        if addresses:
            self._none_since_ms = None
        elif self._none_since_ms is None:
            self._none_since_ms = now_ms
        if self._none_since_ms is not None:
            why = self._why_none()
            is_unsaid, since_ms = why is None, self._none_since_ms
            reason, remedy = self._nowhere() if why is None else (str(why), "check the name servers")
        elif away:
            since_ms, reason = away[0][0], self._failing[away[0][1]].reason
        else:
            self._say_ms, self.trouble = None, ""
            return
        self.trouble = f"{reason}; {remedy}"
        if self._say_ms is None:
            self._say_ms = now_ms if is_unsaid else now_ms + SAY_AGAIN_MS
        if now_ms < self._say_ms:
            return
        self._say_ms = now_ms + SAY_AGAIN_MS
        brokers = [address for _, address in away][:SHOWN_MAX]
        log.warning("heartbeat not accepted", brokers=brokers, since_ms=now_ms - since_ms, reason=reason, remedy=remedy)

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
            self.now(address)
