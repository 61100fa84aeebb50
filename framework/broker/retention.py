"""How long messages are kept: at leisure for their age, sooner on a filling disk; and no sends to a full one.

As in RocketMQ, consumers have no say in it. There is no hour of the day for it (`deleteWhen`): what is too old goes
within the hour, from 75 % of the disk within ten seconds; from 85 % the oldest go whatever their age, as far as that
takes; from 90 % sends are refused. How messages are removed is known to the store.
"""

from __future__ import annotations

import structlog

from framework.broker.rounds import Timer, Timers
from framework.broker.settings import BrokerSettings
from framework.broker.store import expired
from framework.broker.store.expired import Bounds, ExpiryStep
from framework.broker.store.store import Store
from framework.broker.store.writer import Transaction
from framework.errors import FrameworkError
from framework.ports import Clock

log = structlog.get_logger()

LOOK_S = 10.0  # cleanResourceInterval
LEISURE_S = 3600.0
_EVER_MS = 1 << 62


class Retention:
    """One a store, for all its logical brokers."""

    def __init__(
        self, store: Store, timers: Timers, clock: Clock, settings: BrokerSettings, *, waiting: frozenset[str]
    ) -> None:
        self._store = store
        self._timers = timers
        self._clock = clock
        self._settings = settings
        self._waiting = waiting
        self.disk_ratio = 0.0
        """How full the disk was when last looked at."""
        self._timer: Timer | None = None
        self._due_s = 0.0
        self._is_running = False
        self._is_forced = False
        self._cut: ExpiryStep | None = None
        self._place = 0
        self._removed_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the disk is too full to take messages."""
        return self.disk_ratio >= self._settings.disk_full_ratio

    def start(self) -> None:
        self._look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def clean(self) -> None:
        """Remove what is too old now, and not within the hour."""
        self._due_s = self._timers.time() + LEISURE_S
        if not self._is_running:
            self._is_running = True
            self._place, self._cut, self._removed_bytes = 0, None, 0
            self._store.writer.submit(self._step, self._stepped)

    def _look(self) -> None:
        self._timer = self._timers.call_later(LOOK_S, self._look)
        self._measure()
        if self._timers.time() >= self._due_s or self.disk_ratio >= self._settings.disk_clean_ratio:
            self.clean()

    def _measure(self) -> None:
        was_full, was_forced = self.is_full, self._is_forced
        self.disk_ratio = self._store.disk_ratio()
        self._is_forced = self.disk_ratio >= self._settings.disk_forced_ratio
        used = f"{self.disk_ratio:.0%}"
        if self.is_full and not was_full:
            log.error("disk full", used=used, remedy="make room on the disk", reason="sends are refused")
        elif was_full and not self.is_full:
            log.info("disk recovered", used=used, reason="sends are accepted")
        if self._is_forced and not was_forced:
            log.warning("disk nearly full", used=used, reason="the oldest messages are deleted, whatever their age")

    def _bounds(self) -> Bounds:
        """What may go now. Under force everything but the newest part of the log, as RocketMQ keeps its last file."""
        end = self._store.writer.place
        if self._is_forced:
            return Bounds(_EVER_MS, end - self._settings.log_kept_bytes)
        return Bounds(self._clock.now_ms() - self._settings.kept_ms, end)

    def _step(self, transaction: Transaction) -> ExpiryStep | None:
        """Remove what the last step has put out of reach, and put some more there."""
        if self._cut is not None:
            expired.remove(transaction, self._cut)
        return expired.choose(transaction, self._store.queues, self._place, self._bounds(), self._waiting)

    def _stepped(self, cut: ExpiryStep | None, error: FrameworkError | None) -> None:
        if error is not None:
            self._is_running = False  # the next look begins anew, with whatever this round has left
            log.warning("old messages not removed", reason=str(error))
            return
        self._cut = cut
        if cut is None:
            self._is_running = False
            if self._removed_bytes:
                log.info("old messages removed", record_bytes=self._removed_bytes)
            return
        for queue, low in cut.lows.items():
            queue.low = max(queue.low, low)
        self._place = cut.next_place
        self._removed_bytes += cut.size
        self._measure()
        self._store.writer.submit(self._step, self._stepped)
