"""The brokers' clocks: asked for at the start and every five minutes; the application's own clock, corrected by them;
and by which time to tell how old a message is.

Everything in an application that is dated or aged uses `AlignedClock`. Its monotonic time is the system's: how long
something takes has nothing to do with what time it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from framework.client.inquiries import Inquiries
from framework.core.broker_time import BrokerTime
from framework.errors import FrameworkError, is_said
from framework.model.snapshot import ClockSnapshot
from framework.net.task_tree import TaskTree
from framework.ports import Clock

log = structlog.get_logger()

ASKED_MAX = 5
"""Brokers whose clocks are asked for: the middle one of five is right when two are wrong."""
EACH_SECONDS = 300.0
AGAIN_SECONDS = 30.0
"""How soon after nobody has answered."""
FRESH_SECONDS = 10.0
"""How old a broker's word may be where messages are to be skipped by it: its clock may have been set since."""
OFF_MS = 1_000
"""What is put right without a word: milliseconds are nobody's mistake."""


class AlignedClock:
    """ports.Clock: the time of day is the brokers', as far as they have told it; within their bounds the system's."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self.brokers = clock, BrokerTime()
        self.monotonic = clock.monotonic

    def monotonic_ms(self) -> int:
        return int(self.monotonic() * 1000)

    def wall_ms(self) -> int:
        """The time of day by this machine's own clock, whatever brokers say."""
        return self._clock.now_ms()

    def now_ms(self) -> int:
        wall_ms = self._clock.now_ms()
        if not self.brokers.brokers:
            return wall_ms
        return self.brokers.corrected(wall_ms, self._clock.monotonic_ms())

    def picture(self) -> ClockSnapshot:
        """How far this machine's wall clock is from the brokers'."""
        wall_ms, bounds = self._clock.now_ms(), self.brokers.bounds(self._clock.monotonic_ms())
        if bounds is None:
            return ClockSnapshot()
        return ClockSnapshot(wall_ms - bounds[1], wall_ms - bounds[0], self.brokers.brokers)


class ClockLoop:
    """One an application. It never stands in anybody's way: without answers the system's clock counts."""

    def __init__(self, clock: AlignedClock, brokers: Inquiries) -> None:
        self._clock, self._brokers = clock, brokers
        self._silent: dict[str, str] = {}
        """Broker -> why it did not tell; logged on entering."""
        self._asked: dict[str, float] = {}
        """Broker -> when it was asked last, whatever came of it."""
        self._asking: dict[str, asyncio.Lock] = {}
        self._is_off = False

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EACH_SECONDS if self._clock.brokers.brokers else AGAIN_SECONDS)
            await self.ask()

    async def ask(self) -> None:
        """Ask some brokers at once, and say so where this machine's clock is wrong."""
        known = sorted(self._brokers.addresses())
        chosen = [each for at, each in enumerate(known) if at < ASKED_MAX or each in self._asked]
        for gone in [each for each in {**self._asked, **self._silent} if each not in chosen]:
            self._clock.brokers.forget(gone)
            for kept in (self._asked, self._asking, self._silent):
                kept.pop(gone, None)
        tree = TaskTree()
        try:
            for task in [tree.start(self._ask(each), name=f"clock of {each}") for each in chosen]:
                await task
        finally:
            await tree.close()
        self._say()

    def said_by(self, broker: str) -> tuple[int, int] | None:
        """What time it is at the broker of this name, at least and at most; None where it has not said."""
        address = self._brokers.find(broker)
        return None if address is None else self._clock.brokers.of(address, self._clock.monotonic_ms())

    async def ask_anew(self, broker: str) -> None:
        """Have heard the broker of this name a moment ago. One that does not tell is not asked again all the time."""
        address = self._brokers.find(broker)
        if address is None:
            return
        async with self._asking.setdefault(address, asyncio.Lock()):  # who waits here is told by the same answer
            again = AGAIN_SECONDS if address in self._silent else FRESH_SECONDS
            if self._clock.monotonic() - self._asked.get(address, float("-inf")) >= again:
                await self._ask(address)

    async def _ask(self, address: str) -> None:
        try:
            await self._answered(address)
        finally:
            self._asked[address] = self._clock.monotonic()

    async def _answered(self, address: str) -> None:
        now: Callable[[], int] = self._clock.monotonic_ms
        asked_ms = now()
        try:
            reading = await self._brokers.clock(address)
        except FrameworkError as error:
            if address not in self._silent:
                self._silent[address] = str(error)
                told = log.debug if is_said(error) else log.info
                told("broker time unknown", broker=address, reason=str(error))
            return
        self._silent.pop(address, None)
        if not self._clock.brokers.answered(address, reading, asked_ms, now()):
            log.warning("broker clock stepped", broker=address)

    def _say(self) -> None:
        picture = self._clock.picture()
        is_off = picture.off_ms >= OFF_MS
        if is_off and not self._is_off:
            log.warning(
                "local clock skewed",
                skew_ms=picture.low_ms if picture.low_ms > 0 else picture.high_ms, brokers=list(picture.brokers),
            )  # fmt: skip
        elif self._is_off and not is_off:
            log.info("local clock recovered")
        self._is_off = is_off


APART_MS = 60_000
"""Clocks that somebody keeps are milliseconds apart; no age that a group names is as short."""
WARN_AGAIN_MS = 600_000


class Ages:
    """By which time to tell how old a message is that a broker has stored; one per application.

    A broker dates messages by its own clock, so that clock tells their age, and so does ours where it is right. The one
    that makes messages younger counts: `skip_older_than`, `start: 30m` and `Retry(within=...)` must not cost a new
    message. Where the two differ by more than a minute, one of them is wrong and nobody can say which, so no message is
    old. Brokers are meant by their names, as messages name them.
    """

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
