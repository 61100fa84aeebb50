"""When a message is to be delivered: what its sender asks for, and what the broker at hand can do of it.

A broker with a timer (5.x) keeps the message until that time, which its `timerPrecisionMs` rounds down to a second. For
others the shortest level is taken that is not shorter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import structlog

from framework.errors import shorten
from framework.mistakes import MessageMistyped, MessageWrong
from framework.model import delay_levels
from framework.model.durations import LONGEST_MS, to_ms, to_text
from framework.model.message import DELAY_LEVEL
from framework.wire.codes import ResponseCode
from framework.wire.command import V5_0_0
from framework.wire.exchanges import Exchange, nothing
from framework.wire.requests.admin import BrokerConfigRequest

if TYPE_CHECKING:
    from framework.client.cluster import Cluster

DELAY, INSTANT = "TIMER_DELAY_MS", "TIMER_DELIVER_MS"
TIMER_MAX_MS = 3 * 24 * 3_600_000  # timerMaxDelaySec, where a broker does not say


@dataclass(frozen=True, slots=True)
class Wish:
    """When a message is to be delivered: a while after it is stored, or at a time."""

    delay_ms: int = 0
    at_ms: int = 0

    def wait_ms(self, now_ms: int) -> int:
        """How long that is from now."""
        return self.at_ms - now_ms if self.at_ms else self.delay_ms


def wish_of(delay: str | float | None, at: datetime | None, delay_level: int = 0) -> Wish | None:
    """What `delay=` or `at=` ask for, or ConfigurationError. No delay is no wish."""
    if sum((delay is not None, at is not None, bool(delay_level))) > 1:
        raise MessageWrong("send: give one of delay, at and delay_level")
    if delay is not None:
        try:
            delay_ms = to_ms(delay)
        except TypeError as error:
            raise MessageMistyped(f"delay: {error}") from None
        except ValueError as error:
            raise MessageWrong(f"delay: {error}") from None
        return Wish(delay_ms=delay_ms) if delay_ms else None
    if at is None:
        return None
    if not isinstance(at, datetime) or at.tzinfo is None:
        kind = MessageWrong if isinstance(at, datetime) else MessageMistyped
        raise kind(f"at={shorten(at)}: write a datetime with its zone, such as datetime(2027, 1, 1, tzinfo=UTC)")
    at_ms = round(at.timestamp() * 1000)
    if at_ms <= 0:
        raise MessageWrong(f"at={at.isoformat()}: write a time after 1970")
    return Wish(at_ms=at_ms)


@dataclass(frozen=True, slots=True)
class BrokerTimer:
    """What one broker can do with a wish."""

    broker: str
    is_on: bool
    most_ms: int
    levels_ms: tuple[int, ...] = delay_levels.DELAYS_MS

    def properties(self, wish: Wish, now_ms: int, topic: str) -> dict[str, str]:
        """What the message says so that this broker delivers it then; ConfigurationError where it is too far away."""
        wait_ms = wish.wait_ms(now_ms)
        if wait_ms <= 0:
            return {}
        if wait_ms > self.most_ms:
            name = "timerMaxDelaySec" if self.is_on else "messageDelayLevel: it has no timer, or timerWheelEnable=false"
            raise MessageWrong(
                f"send to {topic}: a delay of {to_text(wait_ms)} exceeds the {to_text(self.most_ms)} of broker "
                f"{self.broker} ({name})"
            )
        if self.is_on:
            return {INSTANT: str(wish.at_ms)} if wish.at_ms else {DELAY: str(wish.delay_ms)}
        return {DELAY_LEVEL: str(next(i for i, ms in enumerate(self.levels_ms, start=1) if ms >= wait_ms))}


def timer_of(broker: str, body: bytes) -> BrokerTimer:
    """Out of a broker's settings, `name=value` a line. What cannot be read is as RocketMQ ships it."""
    lines = body.decode(errors="replace").splitlines()
    values = {name.strip(): value.strip() for name, sign, value in (line.partition("=") for line in lines) if sign}
    levels = delay_levels.ladder(values.get("messageDelayLevel", ""))
    if values.get("timerWheelEnable") != "true":
        return BrokerTimer(broker, is_on=False, most_ms=max(levels), levels_ms=levels)
    seconds = values.get("timerMaxDelaySec", "")
    most_ms = int(seconds) * 1000 if seconds.isdecimal() and len(seconds) < 12 else TIMER_MAX_MS
    return BrokerTimer(broker, is_on=True, most_ms=most_ms, levels_ms=levels)


log = structlog.get_logger()

KNOWN_SECONDS = 60.0  # an administrator's change of a broker's settings acts after that


class BrokerTimers:
    """One a producer: what its brokers said of their timers, for a minute.

    Brokers before 5.0, and those whose timer is off, read over a wish for a time and would deliver at once. So each one
    is asked for its settings before it gets the first message with such a wish.
    """

    def __init__(self, cluster: Callable[[], Cluster]) -> None:
        self._cluster = cluster
        self._known: dict[str, tuple[float, BrokerTimer]] = {}

    async def of(self, broker: str, address: str) -> BrokerTimer:
        """What the broker can do. Raises BrokerUnreachable."""
        now = asyncio.get_running_loop().time()
        known = self._known.get(address)
        if known is None or known[0] <= now:
            timer = await self._ask(broker, address)
            if not timer.is_on and (known is None or known[1].is_on):
                log.info("delays taken by level", broker=broker, reason="it has no timer, or timerWheelEnable=false")
            known = self._known[address] = now + KNOWN_SECONDS, timer
        return known[1]

    async def _ask(self, broker: str, address: str) -> BrokerTimer:
        cluster = self._cluster()
        asking = Exchange(BrokerConfigRequest(), nothing).request()
        answer = await cluster.pool.request(address, asking, timeout_ms=cluster.options.request_timeout_ms)
        if answer.code == ResponseCode.SUCCESS:
            return timer_of(broker, answer.body)
        # It may be an administrator's right. Of the answer itself the version is known; the rest the broker checks.
        is_new = answer.version >= V5_0_0  # from then on there is a timer
        return BrokerTimer(broker, is_new, LONGEST_MS if is_new else delay_levels.DELAYS_MS[-1])
