"""Which brokers to leave out for a while, since they failed or were slow: Java's LatencyFaultTolerance, made simpler.

It only chooses among queues that are as good as each other: an order key or a chosen queue goes where it belongs. Where
every broker is left out, none is. Pure: the time is an argument.
"""

from __future__ import annotations

FAILED_SECONDS = 10.0
# How long it took, and for how long the broker is left out then: MQFaultStrategy's latencyMax and notAvailableDuration.
SLOW_SECONDS = ((15.0, 30.0), (5.0, 10.0), (3.0, 6.0), (1.8, 5.0), (0.55, 2.0))
_SLOW_FROM = SLOW_SECONDS[-1][0]


class BrokerHealth:
    """One a producer."""

    def __init__(self) -> None:
        self.avoided: dict[str, float] = {}
        """Broker -> until when it is left out. Empty while all is well, which costs a send nothing."""

    def failed(self, broker: str, now: float) -> None:
        """It could not be reached, gave no answer, or refused what another broker may take."""
        self.avoided[broker] = max(self.avoided.get(broker, 0.0), now + FAILED_SECONDS)

    def answered(self, broker: str, seconds: float, now: float) -> None:
        """It stored something in this time."""
        if seconds < _SLOW_FROM and not self.avoided:
            return
        for least, left_out in SLOW_SECONDS:
            if seconds >= least:
                self.avoided[broker] = now + left_out
                return
        self.avoided.pop(broker, None)

    def is_avoided(self, broker: str, now: float) -> bool:
        until = self.avoided.get(broker)
        return until is not None and now < until
