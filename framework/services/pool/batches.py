"""A worker pool for handlers that take several messages at once.

A batch starts when it is full, or when its oldest message has waited long enough. It is drawn in the moment in which it
starts: drawn before, it would start though its queue was left, its group paused or its topic held since. It may hold
messages of several chunks and queues: it is a list of spans. Each message has its own result, so that offsets and
retries stay per message; where all is well, a span ends at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

from framework.core.chunk import Chunk
from framework.core.expiry import BatchSlot, Slot, Span
from framework.core.window import Window
from framework.model.message import Message
from framework.net.task_tree import TaskTree
from framework.ports import Clock, Workers
from framework.services.call.batch_calls import Batching, Results, results_of
from framework.services.pool.run import BREATH_S, RUNNING, Breath


class BatchPool:
    """The batches of one handler: at most `size` of them run at once, as many tasks as there is work for."""

    def __init__(
        self, name: str, size: int, batching: Batching, *, clock: Clock, workers: Workers, tree: TaskTree
    ) -> None:
        self._name, self._size, self._batching = name, size, batching
        self._clock, self._workers, self._tree = clock, workers, tree
        self._ready: deque[tuple[Chunk, float]] = deque()
        """Chunks with the time they came, the oldest first."""
        self._working = 0
        self._coming = 0
        """How many of those that work have not begun yet. Each will draw a batch, as those that let others breathe."""
        self._breath = Breath(clock.monotonic)
        self._is_inviting = False
        """`_look` is about to be called, behind what runs now."""
        self._places = size
        """Handlers that were given up take at most as many places beside those of the pool."""
        self._tasks: dict[Slot, asyncio.Task[Any] | None] = {}
        """One a batch that runs."""
        self.fenced: dict[Slot, None] = {}
        """Those whose handler was given up and has not ended yet."""
        self._running: dict[Window, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def offer(self, chunk: Chunk) -> None:
        """Have the chunk's messages handled, after those offered before it."""
        self._ready.append((chunk, self._clock.monotonic()))
        if not self._coming and not self._breath.turning:
            self._look(1)  # if its handler suspends, more are invited

    def take_back(self, window: Window) -> list[Chunk]:
        """Start no more of the window's messages: those that nobody has started come back."""
        return window.take_back()

    def resize(self, size: int) -> None:
        """Run so many batches at once from now on; those that run end as they would."""
        self._size = size
        self._count_places()
        self._look()

    def left(self) -> None:
        """A queue was left: its messages wait here no more. A pool for which none wait has no timer."""
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

    def _count_places(self) -> None:
        self._places = max(min(self._size, 2 * self._size - len(self.fenced)), 0)

    def fence(self, slot: Slot) -> None:
        """Give up a batch: its task ends when its handler does."""
        task = self._tasks[slot]
        self._leave(slot)
        self.fenced[slot] = None
        self._count_places()
        self._working -= 1
        if task is not None:
            task.cancel()
        self._look()

    def _look(self, most: int | None = None) -> None:
        """Start a worker, so many at most, for each batch that is due; see to it that what lingers is looked at."""
        most = self._places if most is None else most
        while most and self._working < self._places and self._is_due(self._promised):
            most -= 1
            self._working += 1
            self._coming += 1
            self._tree.start(self._work(), name=f"batch {self._name}")
        if self._timer is None and self._ready and self._working < self._places and not self._coming:
            due = self._ready[0][1] + self._batching.linger_ms / 1000
            wait = max(due - self._clock.monotonic(), 0) + 0.001  # past it, whatever the clock's grain
            self._timer = asyncio.get_running_loop().call_later(wait, self._linger_over)

    @property
    def _promised(self) -> int:
        """So many messages will be drawn by workers that are on their way."""
        return (self._coming + self._breath.turning) * self._batching.count

    def _linger_over(self) -> None:
        self._timer = None
        self._look()

    def _invite(self) -> None:
        """Runs once the worker that asked for it suspends. If its handlers never did, there is nothing to share."""
        self._is_inviting = False
        if not self._breath.turning:
            self._look()

    def _is_due(self, beside: int = 0) -> bool:
        """Whether there is a batch to start, rather than to wait for more, when others take so many messages."""
        ready, most, now = self._ready, self._batching.count, self._clock.monotonic()
        while ready and ready[0][0].next >= ready[0][0].count:  # used up, or taken away with its queue
            ready.popleft()
        waiting = -beside
        for chunk, came in ready:
            waiting += max(chunk.count - chunk.next, 0)
            if waiting >= most or (waiting > 0 and now >= came + self._batching.linger_ms / 1000):
                return True
        return False

    def _draw(self) -> list[Span]:
        """The next batch, which starts now; empty where none is due."""
        batch: list[Span] = []
        if not self._is_due():
            return batch
        most = self._batching.count
        for chunk, _ in self._ready:
            begin = chunk.next
            until = min(chunk.count, begin + most)
            if begin < until:
                batch.append((chunk, begin, until))
                chunk.next = until
                most -= until - begin
            if not most:
                break
        return batch

    async def _work(self) -> None:
        self._coming -= 1
        slot: Slot | None = None
        try:
            while self._working <= self._places and (batch := self._draw()):
                if self._ready and not self._is_inviting:
                    self._is_inviting = True
                    asyncio.get_running_loop().call_soon(self._invite)  # what is left may have to linger
                slot = BatchSlot(batch, self._clock.monotonic())
                await self._run(slot, batch)
                if slot.verdicts is not None:
                    break
                if self._ready and self._clock.monotonic() - self._breath.at >= BREATH_S:
                    await self._breath.draw()  # now and then, or handlers that never suspend would starve the pulls
        finally:
            if slot is None or slot.verdicts is None:  # else its place was given away when it was given up
                self._working -= 1
        self._look()

    async def _run(self, slot: BatchSlot, batch: list[Span]) -> None:
        self._tasks[slot] = slot.worker = asyncio.current_task()
        for chunk, begin, until in batch:
            self._running[chunk.window] = self._running.get(chunk.window, 0) + until - begin
        results, has_ended, how = None, False, self._batching
        try:
            RUNNING.set(slot)
            results = await results_of(how.call, _messages(batch), is_async=how.is_async, workers=self._workers)
            has_ended = True
        except asyncio.CancelledError:
            if slot.verdicts is None:
                raise
        finally:
            slot.worker = None  # whose context has the slot: a circle, and its messages would stay until it is found
            if slot.verdicts is None:
                self._leave(slot)
        if slot.verdicts is None:
            self._bring_home(slot, results)
        else:
            self._ended_late(slot, has_result=has_ended)

    def _leave(self, slot: Slot) -> None:
        assert isinstance(slot, BatchSlot), "this pool makes its slots itself"
        del self._tasks[slot]
        for chunk, begin, until in slot.spans:
            left = self._running.pop(chunk.window) - (until - begin)
            if left:
                self._running[chunk.window] = left

    def _bring_home(self, slot: BatchSlot, results: Results) -> None:
        share = (self._clock.monotonic() - slot.started) / slot.size
        if results is None:
            for chunk, begin, until in slot.spans:
                chunk.spent += share * (until - begin)
                chunk.finish_span(begin, until)
                chunk.run.left(chunk, until - begin)
            return
        at, others = 0, []
        for chunk, begin, until in slot.spans:
            well = 0
            for index, result in enumerate(results[at : at + until - begin], begin):
                if result is None:
                    chunk.finish(index)
                    well += 1
                else:
                    others.append((chunk, index, result))
            at += until - begin
            chunk.spent += share * (until - begin)
            chunk.run.left(chunk, well)
        for chunk, index, result in others:
            chunk.run.not_success(chunk, index, result, slot.started)

    def _ended_late(self, slot: Slot, *, has_result: bool) -> None:
        """A handler that was given up has ended: nothing changes but the counts, and there is a place again."""
        del self.fenced[slot]
        self._count_places()
        if has_result:
            for chunk, count in Counter(chunk for chunk, _ in slot.running).items():
                chunk.run.late(chunk, count)
        self._look()

    def __repr__(self) -> str:
        return f"<BatchPool {self._name}: {self._working} of {self._size} run, {len(self._ready)} chunks ready>"


def _messages(batch: list[Span]) -> list[Message]:
    chunk, begin, until = batch[0]
    messages = list(chunk.messages[begin:until])
    for chunk, begin, until in batch[1:]:
        messages += chunk.messages[begin:until]
    return messages
