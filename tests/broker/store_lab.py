"""What the broker's tests share: a clock and timers turned by hand, workers that wait to be told, fake records."""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable
from pathlib import Path
from struct import pack, unpack_from
from typing import Any, TypeVar

from framework.broker.store.database import Database, open_folder, open_memory
from framework.broker.store.store import Store
from framework.ports import DiskUsage
from framework.wire.stored import MAGIC_V1

T = TypeVar("T")
Job = tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]


class HandClock:
    """Time that stands still until somebody moves it."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.ms = now_ms
        self.skew_ms = 0
        """How far somebody has set the wall clock."""

    def now_ms(self) -> int:
        return self.ms + self.skew_ms

    def monotonic(self) -> float:
        return self.ms / 1000

    def monotonic_ms(self) -> int:
        return self.ms


class HandTimers:
    """A loop of callbacks; its time goes forward only, while a test may set the wall clock back beside it."""

    def __init__(self, clock: HandClock) -> None:
        self._clock = clock
        self._now_ms = 0.0
        self._heap: list[tuple[float, int, _Timer]] = []
        self._count = 0

    def time(self) -> float:
        return self._now_ms / 1000

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> Any:
        return self.call_later(0, callback, *args)

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> _Timer:
        self._count += 1
        timer = _Timer(callback, args)
        heapq.heappush(self._heap, (self._now_ms + delay * 1000, self._count, timer))
        return timer

    def turn(self) -> None:
        """Run what is due now, and what that makes due."""
        while self._heap and self._heap[0][0] <= self._now_ms + 1e-6:
            _, _, timer = heapq.heappop(self._heap)
            timer.run()

    def step(self) -> None:
        """Run what is due now, but not what that makes due."""
        due = [entry for entry in self._heap if entry[0] <= self._now_ms + 1e-6]
        self._heap = [entry for entry in self._heap if entry not in due]
        heapq.heapify(self._heap)
        for _, _, timer in sorted(due):
            timer.run()

    def advance(self, ms: int) -> None:
        """Let time pass, to each timer in turn."""
        until = self._now_ms + ms
        self.turn()
        while self._now_ms < until:
            following = self._heap[0][0] if self._heap else until
            step = max(round(min(until, following) - self._now_ms), 1)
            self._now_ms += step
            self._clock.ms += step
            self.turn()


class _Timer:
    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._callback: Callable[..., Any] | None = callback
        self._args = args

    def cancel(self) -> None:
        self._callback = None

    def run(self) -> None:
        if self._callback is not None:
            self._callback(*self._args)


class HandWorkers:
    """Workers whose jobs run when the test says so; `is_prompt` runs them at once."""

    def __init__(self, *, is_prompt: bool = True) -> None:
        self.is_prompt = is_prompt
        self.jobs: list[Job] = []

    def submit(self, job: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        self.jobs.append((job, done))
        if self.is_prompt:
            self.work()

    def work(self) -> None:
        """Run every job that waits."""
        while self.jobs:
            job, done = self.jobs.pop(0)
            try:
                result = job()
            except Exception as error:  # noqa: BLE001  # as real workers hand every error over
                done(None, error)
            else:
                done(result, None)

    def run(self, job: Callable[[], T]) -> Awaitable[T]:
        raise AssertionError("the store submits")

    def call_soon(self, callback: Callable[[], None]) -> None:
        callback()


class Lab:
    """A store on a clock of its own."""

    def __init__(
        self, database: Database, *, is_prompt: bool = True, now_ms: int = 1_700_000_000_000, skew_ms: int = 0
    ) -> None:
        self.clock = HandClock(now_ms)
        self.clock.skew_ms = skew_ms
        self.timers = HandTimers(self.clock)
        self.workers = HandWorkers(is_prompt=is_prompt)
        self.database = database
        self.usage = DiskUsage(0, 1 << 40)
        self.store = Store(database, self.clock, self.workers, self.timers.call_soon, disk=lambda _: self.usage)

    def append(
        self, topic: str, number: int, text: bytes, *, tag: int = 0, broker: str = "broker-a"
    ) -> list[tuple[int, int] | Exception]:
        """Write a message; (offset, place) or the error arrives in the list once it is certain."""
        outcome: list[tuple[int, int] | Exception] = []

        def done(stored: Any, error: Exception | None) -> None:
            outcome.append(error if error is not None else (stored.offset, stored.place))

        self.store.writer.submit(lambda t: t.append(broker, topic, number, fake_record(text), tag), done)
        return outcome

    def write(self, topic: str, number: int, text: bytes, *, tag: int = 0) -> tuple[int, int]:
        """The same, finished."""
        outcome = self.append(topic, number, text, tag=tag)
        self.timers.turn()
        first = outcome[0]
        assert not isinstance(first, Exception), first
        return first

    def texts(self, topic: str, number: int, start: int = 0, count_max: int = 1000) -> list[bytes]:
        """What can be read of a queue."""
        queue = self.store.queues.find("broker-a", topic, number)
        if queue is None or start >= queue.end:
            return []
        found = self.store.log.read(queue, start, count_max=count_max, bytes_max=1 << 30)
        return [fake_text(record) for record in found.records]


def memory_lab(*, is_prompt: bool = True) -> Lab:
    return Lab(open_memory(), is_prompt=is_prompt)


def folder_lab(folder: Path, *, is_prompt: bool = True) -> Lab:
    return Lab(open_folder(folder), is_prompt=is_prompt)


def fake_record(text: bytes) -> bytes:
    """Bytes with a record's fixed fields where the store looks for them, and a text behind."""
    return pack(">iiiiiqqiqqq", 72 + len(text), MAGIC_V1, 0, 0, 0, 0, 0, 0, 0, 0, 0).ljust(72, b"\0") + text


def fake_text(record: bytes) -> bytes:
    return record[72:]


def fake_offset(record: bytes) -> int:
    return int(unpack_from(">q", record, 20)[0])
