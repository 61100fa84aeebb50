"""Outages: which brokers a query waits for, and since when. One a query, in the process that plans it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from framework.errors import BrokerUnreachable
from framework_spark.survey import warn

T = TypeVar("T")

PAUSE_SECONDS = 0.5  # between two questions where nobody answers
EVERYONE = ""


class Outages:
    """Says once that it waits, and that it does not any more as soon as `brokerWait` is over."""

    def __init__(self, wait_ms: int) -> None:
        self._wait_ms = wait_ms
        self.since: dict[str, float] = {}
        """Broker, or EVERYONE -> since when, in monotonic seconds."""

    def waits_for(self, broker: str, reason: str) -> bool:
        """Whether there is time left for a broker that is away."""
        now = time.monotonic()
        if broker not in self.since and self._wait_ms:
            warn(f"{reason}; waiting for {self._wait_ms / 1000:g} s, as brokerWait says")
        return (now - self.since.setdefault(broker, now)) * 1000 < self._wait_ms

    def is_over(self, broker: str = EVERYONE) -> None:
        self.since.pop(broker, None)

    def outlast(self, work: Callable[[], T]) -> T:
        """What it answers; again while a broker is away, until there is no time left."""
        while True:
            try:
                found = work()
            except BrokerUnreachable as error:
                if not self.waits_for(EVERYONE, str(error)):
                    raise
                time.sleep(PAUSE_SECONDS)
            else:
                self.is_over()
                return found
