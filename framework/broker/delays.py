"""Delayed messages: the ladder of levels, and the timer that brings messages back when they are due.

A message fires once, by the transaction that takes it off the schedule and puts it into its real queue; never early,
whatever is done to the wall clock meanwhile; overdue ones after a restart in the order in which they were due.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import structlog

from framework.broker.answers import Refusal
from framework.broker.rounds import ROUND_MAX, Rounds, Timers
from framework.broker.settings import BrokerSettings
from framework.broker.store import delayed, halves, popped
from framework.broker.store.store import Store
from framework.broker.store.writer import Stored, Transaction
from framework.errors import shorten
from framework.marks import sometimes
from framework.model.message import DELAY_LEVEL
from framework.ports import Clock
from framework.wire.codes import ResponseCode

log = structlog.get_logger()

TIMER_TOPIC = "rmq_sys_wheel_timer"
"""Where those wait whose time is their own."""

_SCOPE, _SKEW = "schedule", "skew_ms"

SECONDS, MILLISECONDS, INSTANT = "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"
OUT = "TIMER_OUT_MS"
"""In every message that was delayed by its own time: when it was due. A copy of such a message is not delayed again."""
_DIGITS_MAX = 18
_WISHES = frozenset({DELAY_LEVEL, SECONDS, MILLISECONDS, INSTANT})


class Level(NamedTuple):
    """A level of the ladder, from 1."""

    number: int


class Instant(NamedTuple):
    """A time of its own, by the schedule's clock and by the wall clock."""

    due_ms: int
    wall_ms: int


DelayWish: TypeAlias = Level | Instant


class Delays:
    """One schedule a store, for all its logical brokers."""

    def __init__(
        self,
        store: Store,
        timers: Timers,
        clock: Clock,
        *,
        settings: BrokerSettings,
        deliver: Callable[[Transaction, str, bytes], None],
        trouble: Callable[[str], None],
    ) -> None:
        self._levels_ms, self._longest_ms = settings.delays_ms, settings.timer_ms_max
        self._store = store
        self._wall_clock = clock
        self._clock = ScheduleClock(clock, skew_ms=self._saved_skew_ms(), stepped=self._stepped)
        self._deliver = deliver
        self._trouble = trouble
        self.rounds = Rounds(
            timers, store.writer, self.now_ms, self._fire, "due messages could not be delivered", trouble
        )

    def start(self) -> None:
        """Take up what the store has on its schedule."""
        for place in delayed.hold_damaged(self._store.database.writing):
            self._trouble(f"delayed message at {place}: when it is due is damaged: held, not delivered")
        self.rounds.start(delayed.next_due_ms(self._store.database.writing))

    def now_ms(self) -> int:
        """The time that delays are reckoned by: what the wall clock would show, had nobody set it."""
        return self._clock.now_ms()

    def at_wall_ms(self, wall_ms: int) -> int:
        """The schedule's time for an instant that somebody named by the wall clock."""
        self._clock.now_ms()  # a step just before counts too
        return wall_ms - self._clock.skew_ms

    def wish_of(self, properties: Mapping[str, str]) -> DelayWish | None:
        """How long a producer's message is to wait, None for not at all; a Refusal (13) for what is no time or too far.

        RocketMQ's names, in its order: DELAY, a level of the ladder; then seconds or milliseconds from now, or an
        instant by the wall clock, which is no delay if it is over.
        """
        if _WISHES.isdisjoint(properties):
            return None
        level = _level(properties.get(DELAY_LEVEL, ""))
        if level > 0:
            return Level(level)
        name = next((name for name in (SECONDS, MILLISECONDS, INSTANT) if name in properties), None)
        if name is None or OUT in properties:
            return None
        time_ms = _number(name, properties[name]) * (1000 if name == SECONDS else 1)
        wall_ms = self._wall_clock.now_ms()
        wait_ms = time_ms - wall_ms if name == INSTANT else time_ms
        if wait_ms <= 0:
            return None
        if wait_ms > self._longest_ms:
            raise Refusal(
                ResponseCode.MESSAGE_ILLEGAL,
                f"timer message illegal, the delay time should not be bigger than the max delay {self._longest_ms}ms;"
                f" {name} asks for {wait_ms}ms",
            )
        out_ms = wall_ms + wait_ms
        return Instant(self.at_wall_ms(out_ms), out_ms)

    def level(self, wish: int) -> int:
        """The level, from 1; above the ladder its last one."""
        return min(max(wish, 1), len(self._levels_ms))

    def plan(self, transaction: Transaction, stored: Stored, level: int) -> int:
        """Schedule a message just appended to the schedule topic; when it is due."""
        return self.plan_at(transaction, stored, self.now_ms() + self._levels_ms[level - 1])

    def plan_at(self, transaction: Transaction, stored: Stored, due_ms: int) -> int:
        """The same for a time of its own, by the schedule's clock."""
        delayed.plan(transaction.connection, due_ms, stored.place)
        return due_ms

    def _fire(self, transaction: Transaction) -> int | None:
        """Deliver what is due; when the next one is."""
        # What this very group has planned is still in the transaction's hands.
        transaction.flush()
        # What fell due since the group began waits for the next one: stored with this one's time it would seem early.
        now_ms = min(self.now_ms(), self.at_wall_ms(transaction.clock_ms))
        for due in delayed.take_due(transaction.connection, now_ms, ROUND_MAX):
            queue = self._store.queues.by_id(due.queue_id)
            if due.record is None or queue is None:
                self._trouble(f"delayed message at {due.place}, due {due.due_ms}, is damaged: held, not delivered")
            else:
                self._deliver(transaction, queue.broker, due.record)
        return delayed.next_due_ms(transaction.connection)

    def _saved_skew_ms(self) -> int:
        """What was taken out of the clock by which the waiting messages were planned; nothing where none waits."""
        values = self._store.values
        connection = self._store.database.writing
        if all(kind.next_due_ms(connection) is None for kind in (delayed, halves, popped)):
            values.drop(_SCOPE, _SKEW)
        return int(values.get(_SCOPE, _SKEW) or 0)

    def _stepped(self, skew_ms: int) -> None:
        log.warning("wall clock stepped", skew_ms=skew_ms)
        self._store.values.put(_SCOPE, _SKEW, str(skew_ms))
        self._store.writer.save_tables()


def _level(text: str) -> int:
    """0 for what is no number, as RocketMQ reads it."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 0


def _number(name: str, text: str) -> int:
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX):
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"timer message illegal, {name}={shorten(text)} is no whole number")
    return int(text)


# Less is a clock that is being slewed, or this process held up between two readings; it is followed.
STEP_MS = 100


class ScheduleClock:
    """The wall clock without the steps that somebody set it by while we ran.

    A delay must outlive a restart, so it is reckoned by a wall clock; and an hour's step must neither fire it early nor
    late, so each step that is seen beside the monotonic clock is taken out again. `stepped` is told what has been taken
    out in all, each time, and keeps it for the next start.
    """

    def __init__(self, clock: Clock, *, skew_ms: int, stepped: Callable[[int], None]) -> None:
        self._clock = clock
        self._stepped = stepped
        self._ahead_ms = clock.now_ms() - clock.monotonic_ms()
        self.skew_ms = skew_ms
        """How far the wall clock is ahead of this one."""

    def now_ms(self) -> int:
        """The schedule's time. To be asked about once a second while something waits: a step is seen by asking."""
        wall_ms = self._clock.now_ms()
        ahead_ms = wall_ms - self._clock.monotonic_ms()
        step_ms, self._ahead_ms = ahead_ms - self._ahead_ms, ahead_ms
        if abs(step_ms) > STEP_MS:
            sometimes("broker: the wall clock was set")
            self.skew_ms += step_ms
            self._stepped(self.skew_ms)
        return wall_ms - self.skew_ms
