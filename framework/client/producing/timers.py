"""Timers: what each broker's timer can do, as the broker says it.

Brokers before 5.0, and those whose timer is off, read over a wish for a time and would deliver at once. So each one is
asked for its settings before it gets the first message with such a wish.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from framework.client.cluster import Cluster
from framework.client.producing.delays import BrokerTimer, timer_of
from framework.model import delay_levels
from framework.model.durations import LONGEST_MS
from framework.wire.codes import ResponseCode
from framework.wire.exchanges import Exchange, nothing
from framework.wire.requests.admin import BrokerConfigRequest

log = structlog.get_logger()

KNOWN_SECONDS = 60.0  # an administrator's change of a broker's settings acts after that
V5_0_0 = 413  # the ordinal of MQVersion.V5_0_0, from which on there is a timer


class BrokerTimers:
    """One a producer: what its brokers said of their timers, for a minute."""

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
        is_new = answer.version >= V5_0_0
        return BrokerTimer(broker, is_new, LONGEST_MS if is_new else delay_levels.DELAYS_MS[-1])
