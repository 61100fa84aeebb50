"""Ages: by which time to tell how old a message is that a broker has stored.

A broker dates messages by its own clock, so that clock tells their age, and so does ours where it is right. The one
that makes messages younger counts: `skip_older_than`, `start: 30m` and `Retry(within=...)` must not cost a new message.
Where the two differ by more than a minute, one of them is wrong and nobody can say which, so no message is old.
"""

from __future__ import annotations

from datetime import UTC, datetime

import structlog

from framework.services.clocks import AlignedClock, ClockLoop

log = structlog.get_logger()

APART_MS = 60_000
"""Clocks that somebody keeps are milliseconds apart; no age that a group names is as short."""
WARN_AGAIN_MS = 600_000


class Ages:
    """One per application. Brokers are meant by their names, as messages name them."""

    def __init__(self, clock: AlignedClock, clocks: ClockLoop) -> None:
        self._clock, self._clocks = clock, clocks
        self._apart: dict[str, int] = {}
        """Broker whose clock is not ours -> when that was logged last."""

    def now_ms(self, broker: str) -> int | None:
        """The time by which to age what this broker stored; None: nobody can tell how old it is. From any thread."""
        wall_ms = self._clock.wall_ms()
        said = self._clocks.said_by(broker)
        if said is None:  # it does not tell its time: then ours counts, or the other brokers' where that is less
            return min(wall_ms, self._clock.now_ms())
        low_ms, high_ms = said
        apart_ms = max(low_ms - wall_ms, wall_ms - high_ms, 0)
        self._note(broker, apart_ms, low_ms, wall_ms)
        return min(wall_ms, low_ms) if apart_ms <= APART_MS else None

    async def asked_ms(self, broker: str) -> int | None:
        """The same before something is skipped: the broker is asked, if that was not done a moment ago."""
        await self._clocks.ask_anew(broker)
        return self.now_ms(broker)

    def _note(self, broker: str, apart_ms: int, broker_ms: int, wall_ms: int) -> None:
        now_ms, before = self._clock.monotonic_ms(), self._apart.get(broker)
        if apart_ms <= APART_MS:
            if before is not None:
                self._apart.pop(broker, None)
                log.info("message ages known", broker=broker)
        elif before is None or now_ms - before >= WARN_AGAIN_MS:
            self._apart[broker] = now_ms
            log.warning(
                "message ages unknown",
                broker=broker, apart_ms=apart_ms, broker_time=_text(broker_ms), local_time=_text(wall_ms),
            )  # fmt: skip

    def __repr__(self) -> str:
        return f"<Ages, not of {', '.join(self._apart) or 'no broker'}>"


def _text(unix_ms: int) -> str:
    try:
        return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):  # a broker may say any number
        return f"{unix_ms} ms"
