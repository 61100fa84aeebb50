"""The same crew as threads, for synchronous handlers.

A thread takes whole chunks and brings each home with one `call_soon`; only the event loop's thread touches the window.
Quick handlers are run by one thread (the others would only fight for the interpreter); the first handler that takes
longer than a blink invites another thread, which shares the same chunk by drawing its indexes from one counter.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator

from framework.core.chunk import Chunk
from framework.core.expiry import Slot
from framework.core.window import Window
from framework.ports import Clock, Workers
from framework.services.work import Run, SyncCall

SLOW_SECONDS = 0.001  # a handler that takes longer waits for something, so a second thread gains time
REPORT_SECONDS = 0.02  # ends of slow handlers are brought home this often, so that offsets move


class _Share:
    """One chunk on its way through threads. The counter is drawn by several; the rest is read only."""

    __slots__ = ("chunk", "count", "draw", "messages")

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.count = chunk.count
        self.messages = chunk.messages
        self.draw: Iterator[int] = itertools.count(chunk.next)  # `next()` on it is atomic


class ThreadCrew:
    """The threads of one group: at most `size` at once, none while nothing is ready."""

    def __init__(self, size: int, clock: Clock, workers: Workers) -> None:
        self.slots = tuple(Slot() for _ in range(size))
        self._clock = clock
        self._workers = workers
        self._ready: deque[_Share] = deque()
        self._free = list(reversed(self.slots))

    def offer(self, chunk: Chunk) -> None:
        """Have the chunk's messages handled, after those offered before it."""
        self._ready.append(_Share(chunk))
        if len(self._free) == len(self.slots):
            self._invite()

    def _invite(self) -> None:
        """Start one more thread, where there is work and a free place. On the loop's thread only."""
        if self._ready and self._free:
            slot = self._free.pop()
            self._workers.submit(lambda: self._serve(slot), lambda _, error: self._came_home(slot, error))

    def _came_home(self, slot: Slot, error: BaseException | None) -> None:
        slot.chunk = None
        self._free.append(slot)
        if error is not None:
            raise error  # `_serve` lets nothing of a handler's through: this is ours
        if len(self._free) == len(self.slots):
            self._invite()  # a chunk may have come between the thread's last look and now

    # On a thread

    def _serve(self, slot: Slot) -> None:
        ready = self._ready
        while True:
            try:
                share = ready[0]
            except IndexError:
                return
            self._run_share(share, slot)
            # Whoever emptied the share removes it; two threads may both see it empty, and one of them wins.
            try:
                if ready[0] is share:
                    ready.remove(share)
            except (IndexError, ValueError):
                continue

    def _run_share(self, share: _Share, slot: Slot) -> None:
        chunk, count, messages, monotonic = share.chunk, share.count, share.messages, self._clock.monotonic
        run: Run = chunk.run
        handler: SyncCall = run.call
        ended: list[int] = []
        slot.chunk = chunk
        reported = slot.started = monotonic()
        invited = False
        while (index := next(share.draw)) < count:
            if chunk.window.is_draining:
                break
            slot.index = index
            started = slot.started = monotonic()
            try:
                result = handler(messages[index])
            except Exception as error:  # noqa: BLE001 - border: the handler's
                result = error
            if result is None:
                ended.append(index)
            else:
                self._report_uncommon(chunk, index, result, started)
            now = monotonic()
            if now - started > SLOW_SECONDS:
                if not invited:
                    invited = True
                    self._workers.call_soon(self._invite)
                if ended and now - reported > REPORT_SECONDS:
                    reported = now
                    self._report(chunk, ended)
                    ended = []
        self._report(chunk, ended)

    def _report(self, chunk: Chunk, ended: list[int]) -> None:
        self._workers.call_soon(lambda: _bring_home(chunk, ended))

    def _report_uncommon(self, chunk: Chunk, index: int, result: object, started: float) -> None:
        self._workers.call_soon(lambda: _bring_uncommon_home(chunk, index, result, started))

    def runs(self, window: Window) -> int:
        """How many handlers run on messages of this window."""
        return sum(slot.chunk is not None and slot.chunk.window is window for slot in self.slots)

    def __repr__(self) -> str:
        return f"<ThreadCrew {len(self.slots) - len(self._free)} of {len(self.slots)} busy, {len(self._ready)} ready>"


def _bring_home(chunk: Chunk, ended: list[int]) -> None:
    if len(ended) == chunk.count and not chunk.low:
        chunk.next = chunk.low = chunk.count  # all of it by one thread: the common case
    else:
        for index in ended:
            chunk.finish(index)
    chunk.run.left(chunk, len(ended))


def _bring_uncommon_home(chunk: Chunk, index: int, result: object, started: float) -> None:
    chunk.run.uncommon(chunk, index, result, started)
