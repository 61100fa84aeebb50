"""Rates: how quickly one topic of a group is pulled and handled, over the last minute and the last hour; Histogram: how
long something took, counted by classes.

Fed once a pull and once a chunk, never once a message, and bounded. They know no clock: time is an argument. The
windows are the Java client's (six steps of 10 s, six of 10 min), so that both kinds of members show alike in one group.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable

from framework.model.snapshot import ExampleSnapshot, HistogramSnapshot, Pace

# OpenTelemetry's for messaging, and longer ones: the limit of a handler is 15 minutes by default.
BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 30.0, 60.0, 300.0, 900.0)
EXAMPLE_SECONDS = 15.0
"""How long an example is kept at least: as long as most scrapers wait."""


class Histogram:
    """Durations in seconds. `examples` says whether the caller should name one: (bucket, since)."""

    __slots__ = ("_counts", "_examples", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._examples: list[ExampleSnapshot | None] = [None] * (len(BOUNDS_S) + 1)
        self._sum = 0.0

    def add(self, seconds: float, count: int = 1) -> int:
        """Count `count` times of so long each; answers their class."""
        place = bisect_left(BOUNDS_S, seconds)
        self._counts[place] += count
        self._sum += seconds * count
        return place

    def wants_example(self, place: int, now_ms: int) -> bool:
        kept = self._examples[place]
        return kept is None or now_ms - kept.at_ms >= EXAMPLE_SECONDS * 1000

    def show(self, place: int, example: ExampleSnapshot) -> None:
        self._examples[place] = example

    def picture(self) -> HistogramSnapshot:
        return HistogramSnapshot(BOUNDS_S, tuple(self._counts), self._sum, tuple(self._examples))


class Sends:
    """How long an application's requests to store messages took, and of how many messages they ended how."""

    __slots__ = ("messages", "times")

    def __init__(self) -> None:
        self.times = Histogram()
        self.messages: dict[str, int] = {"": 0}
        """Kind of error -> messages; "" are those that were stored, or sent one way."""

    def ended(self, count: int, seconds: float, error: BaseException | None) -> None:
        self.times.add(seconds)
        kind = "" if error is None else type(error).__name__
        self.messages[kind] = self.messages.get(kind, 0) + count


MINUTE_STEP_MS = 10_000
HOUR_STEP_MS = 600_000
STEPS = 6


class Step:
    """What happened in one step of time."""

    __slots__ = ("failed", "handled", "number", "pull_ms", "pulled", "pulls", "spent_ms")

    def __init__(self, number: int) -> None:
        self.number = number
        self.pulls = 0
        self.pull_ms = 0.0
        self.pulled = 0
        self.handled = 0
        self.failed = 0
        self.spent_ms = 0.0

    def add(self, other: Step) -> None:
        self.pulls += other.pulls
        self.pull_ms += other.pull_ms
        self.pulled += other.pulled
        self.handled += other.handled
        self.failed += other.failed
        self.spent_ms += other.spent_ms

    @property
    def handle_ms(self) -> float:
        ended = self.handled + self.failed
        return self.spent_ms / ended if ended else 0.0


class Rates:
    """One topic of one group. All its queues feed the same."""

    __slots__ = ("_begin_ms", "_hour", "_minute", "_present", "_unspent", "_until_ms", "pulls", "succeeded_ms", "times")

    def __init__(self, now_ms: int, times: Histogram | None = None) -> None:
        self._begin_ms = now_ms
        self.times = times
        """How long handlers took since the start, where somebody wants to know."""
        self.pulls = None if times is None else Histogram()
        """The same of pulls that brought something."""
        self.succeeded_ms: int | None = None
        """When a worker last left a message that it had handled."""
        self._unspent = 0
        """Messages that have ended, and whose time comes with their chunk's."""
        self._minute: deque[Step] = deque(maxlen=STEPS)
        """The steps that are over; an old one falls out as a whole."""
        self._hour: deque[Step] = deque(maxlen=STEPS + 1)
        """Sums of the steps that are over, the newest last."""
        self._present = Step(now_ms // MINUTE_STEP_MS)
        self._until_ms = (self._present.number + 1) * MINUTE_STEP_MS

    # Feeding

    def pulled(self, now_ms: int, messages: int, elapsed_ms: float) -> None:
        """A pull that brought something; long polls that brought nothing would only measure their own patience."""
        if now_ms >= self._until_ms:
            self._turn(now_ms)
        step = self._present
        step.pulls += 1
        step.pull_ms += elapsed_ms
        step.pulled += messages
        if self.pulls is not None:
            self.pulls.add(elapsed_ms / 1000)

    def handled(self, now_ms: int, count: int, spent_ms: float) -> tuple[int, float] | None:
        """A worker left a chunk: `count` successes, and the time it spent there, which its failures share.

        Where times are kept, it answers the class that these messages count to, by their mean in seconds, and that.
        """
        if now_ms >= self._until_ms:
            self._turn(now_ms)
        step = self._present
        if count:
            step.handled += count
            self.succeeded_ms = now_ms
        step.spent_ms += spent_ms
        if self.times is None:
            return None
        count += self._unspent
        if not spent_ms or not count:
            self._unspent = count
            return None
        self._unspent = 0
        seconds = spent_ms / 1000 / count
        return self.times.add(seconds, count), seconds

    def failed(self, now_ms: int) -> None:
        """One message is to be delivered again, or is a dead letter. Its time comes with its chunk's."""
        if now_ms >= self._until_ms:
            self._turn(now_ms)
        self._present.failed += 1
        self._unspent += 1

    def _turn(self, now_ms: int) -> None:
        over = self._present
        self._minute.append(over)
        number = over.number * MINUTE_STEP_MS // HOUR_STEP_MS
        if not self._hour or self._hour[-1].number != number:
            self._hour.append(Step(number))
        self._hour[-1].add(over)
        self._present = Step(now_ms // MINUTE_STEP_MS)
        self._until_ms = (self._present.number + 1) * MINUTE_STEP_MS

    # Looking

    def pace(self, now_ms: int) -> Pace:
        """As administrators see it."""
        present, step = self._present, now_ms // MINUTE_STEP_MS
        minute = _sum((*self._minute, present), step - STEPS)
        lately = Step(present.number * MINUTE_STEP_MS // HOUR_STEP_MS)
        lately.add(present)
        hour = _sum((*self._hour, lately), now_ms // HOUR_STEP_MS - STEPS)
        oldest_ms = (step - STEPS) * MINUTE_STEP_MS
        seconds = max(now_ms - max(self._begin_ms, oldest_ms), 1000) / 1000  # a second at least: one message is no rate
        is_quiet = not minute.handled + minute.failed
        return Pace(
            pull_ms=minute.pull_ms / minute.pulls if minute.pulls else 0.0,
            pulled_a_second=minute.pulled / seconds,
            handle_ms=hour.handle_ms if is_quiet else minute.handle_ms,
            handled_a_second=minute.handled / seconds,
            failed_a_second=minute.failed / seconds,
            failed_in_an_hour=hour.failed,
            success_ago_ms=None if self.succeeded_ms is None else now_ms - self.succeeded_ms,
        )

    def __repr__(self) -> str:
        return f"<Rates {self._present.handled} handled, {self._present.failed} failed in this step>"


def _sum(steps: Iterable[Step], oldest: int) -> Step:
    total = Step(oldest)
    for step in steps:
        if step.number >= oldest:
            total.add(step)
    return total
