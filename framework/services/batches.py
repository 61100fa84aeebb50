"""A crew for handlers that take several messages at once.

A batch starts when it is full, or when its oldest message has waited long enough. It may hold messages of several
chunks and queues; each keeps its own end, so that offsets and retries stay a message's own.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque

from framework.core.chunk import Chunk
from framework.core.window import Window
from framework.net.task_tree import TaskTree
from framework.ports import Clock, Workers
from framework.services.batch_calls import Batching, results_of
from framework.services.work import Run

Member = tuple[Chunk, int]


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

    def runs(self, window: Window) -> int:
        """How many messages of this window are in batches that run."""
        return self._running.get(window, 0)

    def _look(self) -> None:
        while self._working < self._size and (batch := self._draw()):
            self._working += 1
            self._tree.start(self._work(batch), name=f"batch {self._name}")
        if self._timer is None and self._ready and self._working < self._size:
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
        try:
            while batch:
                await self._run(batch)
                await asyncio.sleep(0)  # a turn of the loop a batch, or handlers that never suspend would starve pulls
                batch = self._draw() if self._working <= self._size else []
        finally:
            self._working -= 1
        self._look()

    async def _run(self, batch: list[Member]) -> None:
        started = self._clock.monotonic()
        windows = Counter(chunk.window for chunk, _ in batch)
        for window, count in windows.items():
            self._running[window] = self._running.get(window, 0) + count
        try:
            messages = [chunk.messages[index] for chunk, index in batch]
            results = await results_of(self._batching, messages, self._workers)
        finally:
            for window, count in windows.items():
                left = self._running.pop(window) - count
                if left:
                    self._running[window] = left
        share = (self._clock.monotonic() - started) / len(batch)
        ended: dict[Chunk, int] = {}
        for (chunk, index), result in zip(batch, results, strict=True):
            chunk.spent += share
            ended.setdefault(chunk, 0)
            if result is None:
                chunk.finish(index)
                ended[chunk] += 1
        for chunk, count in ended.items():
            run: Run = chunk.run
            run.left(chunk, count)
        for (chunk, index), result in zip(batch, results, strict=True):
            if result is not None:
                chunk.run.uncommon(chunk, index, result, started)

    def __repr__(self) -> str:
        return f"<BatchCrew {self._name}: {self._working} of {self._size} run, {len(self._ready)} chunks ready>"
