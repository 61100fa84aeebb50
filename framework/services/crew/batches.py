"""A worker pool for handlers that take several messages at once.

A batch starts when it is full, or when its oldest message has waited long enough. It may hold messages of several
chunks and queues. Each message has its own result, so that offsets and retries stay per message.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from framework import marks
from framework.core.chunk import Chunk
from framework.core.expiry import BatchSlot, Member, Slot
from framework.core.window import Window
from framework.net.task_tree import TaskTree
from framework.ports import Clock, Workers
from framework.services.call.batch_calls import Batching, results_of
from framework.services.crew.run import RUNNING, run_in


class BatchCrew:
    """The batches of one handler: at most `size` of them run at once, as many tasks as there is work for."""

    def __init__(
        self, name: str, size: int, batching: Batching, *, clock: Clock, workers: Workers, tree: TaskTree
    ) -> None:
        self._name, self._size, self._batching = name, size, batching
        self._clock, self._workers, self._tree = clock, workers, tree
        self._ready: deque[tuple[Chunk, float]] = deque()
        """Chunks with the time they came, the oldest first."""
        self._working = 0
        self._tasks: dict[Slot, asyncio.Task[Any] | None] = {}
        """One a batch that runs."""
        self.fenced: dict[Slot, None] = {}
        """Those whose handler was given up and has not ended yet."""
        self._running: dict[Window, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def offer(self, chunk: Chunk) -> None:
        """Have the chunk's messages handled, after those offered before it."""
        self._ready.append((chunk, self._clock.monotonic()))
        self._look()

    def resize(self, size: int) -> None:
        """Run so many batches at once from now on; those that run end as they would."""
        self._size = size
        self._look()

    def left(self) -> None:
        """A queue was left: its messages wait here no more. A crew for which none wait has no timer."""
        self._ready = deque(each for each in self._ready if each[0].next < each[0].count)
        if not self._ready and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def runs(self, window: Window) -> int:
        """How many messages of this window are in batches that run."""
        return self._running.get(window, 0)

    @property
    def slots(self) -> Iterable[Slot]:
        return tuple(self._tasks)

    @property
    def missing(self) -> int:
        """How many places are empty because too many handlers that were given up do not end."""
        return self._size - self._places

    @property
    def _places(self) -> int:
        """Handlers that were given up take at most as many places beside those of the crew."""
        return max(min(self._size, 2 * self._size - len(self.fenced)), 0)

    def fence(self, slot: Slot) -> None:
        """Give up a batch: its task ends, and its thread, where it has one, is left to itself."""
        task = self._tasks[slot]
        self._leave(slot)
        self.fenced[slot] = None
        self._working -= 1
        if task is not None:
            task.cancel()
        self._look()

    def _look(self) -> None:
        while self._working < self._places and (batch := self._draw()):
            self._working += 1
            self._tree.start(self._work(batch), name=f"batch {self._name}")
        if self._timer is None and self._ready and self._working < self._places:
            due = self._ready[0][1] + self._batching.linger_ms / 1000
            wait = max(due - self._clock.monotonic(), 0) + 0.001  # past it, whatever the clock's grain
            self._timer = asyncio.get_running_loop().call_later(wait, self._linger_over)

    def _linger_over(self) -> None:
        self._timer = None
        self._look()

    def _draw(self) -> list[Member]:
        """The next batch, begun; empty where it is worth waiting for more."""
        ready, most = self._ready, self._batching.count
        while ready and ready[0][0].next >= ready[0][0].count:  # used up, or taken away with its queue
            ready.popleft()
        if not ready:
            return []
        waiting = sum(max(chunk.count - chunk.next, 0) for chunk, _ in ready)
        if waiting < most and self._clock.monotonic() < ready[0][1] + self._batching.linger_ms / 1000:
            return []
        batch: list[Member] = []
        for chunk, _ in ready:
            until = min(chunk.count, chunk.next + most - len(batch))
            batch += [(chunk, index) for index in range(chunk.next, until)]
            chunk.next = max(chunk.next, until)
            if len(batch) == most:
                break
        return batch

    async def _work(self, batch: list[Member]) -> None:
        slot: Slot | None = None
        try:
            while batch:
                slot = BatchSlot(batch, self._clock.monotonic())
                await self._run(slot, batch)
                if slot.verdicts is not None:
                    break
                await asyncio.sleep(0)  # a turn of the loop a batch, or handlers that never suspend would starve pulls
                batch = self._draw() if self._working <= self._places else []
        finally:
            if slot is None or slot.verdicts is None:  # else its place was given away when it was given up
                self._working -= 1
        self._look()

    async def _run(self, slot: Slot, batch: list[Member]) -> None:
        self._tasks[slot] = slot.worker = asyncio.current_task()
        for window, count in _windows(slot).items():
            self._running[window] = self._running.get(window, 0) + count
        results: list[object] | None = None
        try:
            messages = [chunk.messages[index] for chunk, index in batch]
            RUNNING.set(slot)
            results = await results_of(self._batching, messages, lambda call: self._on_a_thread(slot, call))
        except asyncio.CancelledError:
            if slot.verdicts is None:
                raise
        finally:
            if slot.verdicts is None:
                self._leave(slot)
        if slot.verdicts is not None:
            if self._batching.is_async:  # a thread says itself when it has ended
                self._ended_late(slot, has_result=results is not None)
            return
        assert results is not None, "whoever was not given up has results"
        self._bring_home(slot, batch, results)

    def _leave(self, slot: Slot) -> None:
        del self._tasks[slot]
        for window, count in _windows(slot).items():
            left = self._running.pop(window) - count
            if left:
                self._running[window] = left

    def _bring_home(self, slot: Slot, batch: list[Member], results: list[object]) -> None:
        share = (self._clock.monotonic() - slot.started) / len(batch)
        ended: dict[Chunk, int] = {}
        for (chunk, index), result in zip(batch, results, strict=True):
            chunk.spent += share
            ended.setdefault(chunk, 0)
            if result is None:
                chunk.finish(index)
                ended[chunk] += 1
        for chunk, count in ended.items():
            chunk.run.left(chunk, count)
        for (chunk, index), result in zip(batch, results, strict=True):
            if result is not None:
                chunk.run.not_success(chunk, index, result, slot.started)

    def _ended_late(self, slot: Slot, *, has_result: bool) -> None:
        """A handler that was given up has ended: nothing changes but the counts, and there is a place again."""
        del self.fenced[slot]
        if has_result:
            marks.sometimes("a handler ended after its message had expired")
            for chunk, count in Counter(chunk for chunk, _ in slot.running).items():
                chunk.run.late(chunk, count)
        self._look()

    def _on_a_thread(self, slot: Slot, call: Callable[[], list[object]]) -> Awaitable[list[object]]:
        home: asyncio.Future[list[object]] = asyncio.get_running_loop().create_future()

        def job() -> list[object]:
            slot.worker = threading.get_ident()
            return run_in(slot, call)

        def done(results: list[object] | None, error: BaseException | None) -> None:
            if slot.verdicts is not None:
                self._ended_late(slot, has_result=True)
            elif home.done():
                return
            elif error is not None:
                home.set_exception(error)
            else:
                assert results is not None, "a batch's call answers a list"
                home.set_result(results)

        self._workers.submit(job, done)
        return home

    def __repr__(self) -> str:
        return f"<BatchCrew {self._name}: {self._working} of {self._size} run, {len(self._ready)} chunks ready>"


def _windows(slot: Slot) -> Counter[Window]:
    return Counter(chunk.window for chunk, _ in slot.running)
