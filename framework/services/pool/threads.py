"""The same worker pool of threads, for synchronous handlers.

A thread takes whole chunks and brings each home with one `call_soon`; only the event loop's thread touches the window.
One thread runs quick handlers (more would only compete for the interpreter). The first handler that takes longer than a
blink invites another thread, which shares the same chunk by drawing its indexes from one counter. A thread that hangs
cannot invite any other, so the loop looks from time to time whether any thread makes progress.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import deque
from collections.abc import Iterator
from functools import partial

from framework.core.chunk import Chunk
from framework.core.expiry import Slot
from framework.core.results import has_failed
from framework.core.window import Window
from framework.ports import Clock, Workers
from framework.services.call.run_once import failure_at_once
from framework.services.pool.run import RUNNING, SyncCall

SLOW_SECONDS = 0.001  # a handler that takes longer waits for something, so a second thread gains time
LOOK_SECONDS = 0.01  # how often the loop looks while chunks wait; a hundred looks a second cost nothing
REPORT_SECONDS = 0.02  # ends of slow handlers are brought home this often, so that offsets move


class _Share:
    """One chunk on its way through threads. The counter is drawn by several; the rest is read only."""

    __slots__ = ("chunk", "count", "draw", "entered", "is_used_up", "left", "messages")

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.count = chunk.count
        self.messages = chunk.messages
        self.draw: Iterator[int] = itertools.count(chunk.next)  # `next()` on it is atomic
        self.entered: list[Slot] = []  # appended to by threads, which is atomic too
        self.left = 0
        """How many of them have left, with all their ends brought home; counted on the loop's thread."""
        self.is_used_up = False
        """Somebody drew beyond the last message. Until then a share that everybody has left may be entered again."""


class ThreadPool:
    """The threads of one group: at most `size` at once, none while nothing is ready."""

    def __init__(self, size: int, clock: Clock, workers: Workers) -> None:
        self._slots = {Slot(): None for _ in range(size)}
        self.fenced: dict[Slot, _Share | None] = {}
        """Those whose handler was given up and has not ended yet, with the share that it is in."""
        self._size = size
        self._clock = clock
        self._workers = workers
        self._ready: deque[_Share] = deque()
        self._out: dict[_Share, None] = {}
        """Shares that threads may still be in."""
        self._free = list(reversed(self._slots))
        self._look_timer: asyncio.TimerHandle | None = None

    @property
    def slots(self) -> tuple[Slot, ...]:
        """One a thread; those that are too many are among them until they have left."""
        return tuple(self._slots)

    def offer(self, chunk: Chunk) -> None:
        """Have the chunk's messages handled, after those offered before it."""
        share = _Share(chunk)
        self._ready.append(share)
        self._out[share] = None
        if len(self._free) == len(self._slots):
            self._invite()
        self._look_soon()

    def take_back(self, window: Window) -> list[Chunk]:
        """Start no more of the window's messages: those that nobody has started come back.

        Each index is drawn once, by a thread or here. What a thread has drawn behind some that came to be drawn here is
        started already, so those before it stay.
        """
        for share in self._out:
            chunk = share.chunk
            if chunk.window is window and chunk not in window.again:
                count, first = share.count, share.count
                ours = list(itertools.takewhile(count.__gt__, share.draw))
                while ours and ours[-1] == first - 1:
                    first = ours.pop()
                chunk.next = first
                share.draw = itertools.chain(ours, itertools.repeat(count))
        return window.take_back()

    def resize(self, size: int) -> None:
        """At most `size` threads from now on; where they are too many, all end the message that they are at and come
        home, and who comes first leaves. One that was chosen now might be at work for long, and others start beside it.
        """
        self._size = size
        self._forget_free()
        is_too_many = len(self._slots) > size
        for slot in self._slots:
            slot.is_leaving = is_too_many
        self._fill()

    def fence(self, slot: Slot) -> None:
        """Give up the slot's handler: nobody can end a thread, so another one takes its place.

        What it has ended before is brought home here, for it may never do that itself.
        """
        chunk, ended = slot.chunk, slot.ended
        self._slots.pop(slot, None)
        slot.is_leaving = True
        self.fenced[slot] = next((share for share in self._out if share.chunk is chunk and slot in share.entered), None)
        if chunk is not None:
            _bring_home(chunk, [index for index in ended if not slot.has_expired((chunk, index))], slot)
        self._fill()

    @property
    def missing(self) -> int:
        """How many places are empty because too many handlers that were given up do not end."""
        return max(self._size - len(self._slots), 0)

    def _fill(self) -> None:
        """Free places where there are too few; handlers that were given up take at most as many beside them."""
        new = [Slot() for _ in range(min(self._size, 2 * self._size - len(self.fenced)) - len(self._slots))]
        if new:
            self._free += new
            self._slots.update(dict.fromkeys(new))
            self._invite()
            self._look_soon()

    def _look_soon(self) -> None:
        if self._look_timer is None and self._ready:
            self._look_again()

    def _forget_free(self) -> None:
        """Whoever is one too many and out of every share has left."""
        while self._free and len(self._slots) > self._size:
            self._slots.pop(self._free.pop())

    def _look_again(self) -> None:
        self._look_timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """While chunks wait: where no thread has begun a message lately, all stand still, and one more is let in."""
        self._look_timer = None
        if not self._ready or not self._slots:
            return
        lately = self._clock.monotonic() - LOOK_SECONDS
        if not any(slot.chunk is not None and slot.started > lately for slot in self._slots):
            self._invite()
        self._look_again()

    def _invite(self) -> None:
        """Start one more thread, where there is work and a free place. On the loop's thread only."""
        if self._ready and self._free:
            slot = self._free.pop()
            self._workers.submit(lambda: self._serve(slot), lambda _, error: self._came_home(slot, error))

    def _came_home(self, slot: Slot, error: BaseException | None) -> None:
        slot.chunk = None
        if slot in self.fenced:
            del self.fenced[slot]
            self._fill()
        else:
            self._free.append(slot)
            self._forget_free()
        was_sent_home, slot.is_leaving = slot.is_leaving, False
        if error is not None:
            raise error  # `_serve` lets nothing of a handler's through: this is ours
        if was_sent_home or len(self._free) == len(self._slots):
            self._invite()  # a chunk may have come between the thread's last look and now

    # On a thread

    def _serve(self, slot: Slot) -> None:
        slot.worker = threading.get_ident()
        RUNNING.set(slot)  # in the context of this job alone
        self._run_shares(slot)

    def _run_shares(self, slot: Slot) -> None:
        ready = self._ready
        while not slot.is_leaving:
            try:
                share = ready[0]
            except IndexError:
                return
            self._run_share(share, slot)
            # Whoever emptied the share removes it; two threads may both see it empty, and one of them wins. One that
            # was sent home leaves it where it is, for the others.
            try:
                if share.is_used_up and ready[0] is share:
                    ready.remove(share)
            except (IndexError, ValueError):
                continue

    def _run_share(self, share: _Share, slot: Slot) -> None:
        share.entered.append(slot)
        chunk, count, messages, monotonic = share.chunk, share.count, share.messages, self._clock.monotonic
        handler: SyncCall = chunk.run.call
        ended: list[int] = []
        slot.ended = ended
        entered = reported = slot.started = monotonic()
        slot.index, slot.chunk = -1, chunk  # no message yet: see `Slot.started`
        invited, index = False, 0
        while not slot.is_leaving and (index := next(share.draw)) < count:
            if chunk.window.is_draining:
                index = count
                break
            started = slot.started = monotonic()
            slot.index = index
            try:
                result = handler(messages[index])
            except Exception as error:  # noqa: BLE001 - border: the handler's
                result = error
            except BaseException as error:  # noqa: BLE001 - border: the handler's; nobody else would end the message
                result = failure_at_once(error)
            if result is None:
                ended.append(index)
            else:
                # A thread that failed comes home, so that failures are counted before it starts anything more.
                slot.is_leaving = slot.is_leaving or has_failed(result)
                self._workers.call_soon(partial(_bring_uncommon_home, chunk, index, result, slot, started))
            now = monotonic()
            if now - started > SLOW_SECONDS:
                if not invited:
                    invited = True
                    self._workers.call_soon(self._invite)
                if ended and now - reported > REPORT_SECONDS:
                    reported = now
                    self._workers.call_soon(partial(_bring_home, chunk, ended, slot))
                    ended = slot.ended = []
        if index >= count:
            share.is_used_up = True
        spent = monotonic() - entered
        self._workers.call_soon(lambda: self._leave(share, ended, spent, slot))

    # On the loop's thread

    def _leave(self, share: _Share, ended: list[int], spent: float, slot: Slot) -> None:
        """A thread's last ends in a share. It has left before the run is told, or whoever waits for that would find it
        still in, and nobody would tell again. Whoever enters after the last one has left finds nothing to start.
        """
        share.left += 1
        if share.left == len(share.entered) and share.is_used_up:
            self._out.pop(share, None)
            share.chunk.next = max(share.chunk.next, share.count)  # all are started, though some may not have ended
        if self.fenced.get(slot) is share:
            self.fenced[slot] = None
        share.chunk.spent += spent
        _bring_home(share.chunk, ended, slot)

    def runs(self, window: Window) -> int:
        """How many threads run messages of this window, or have ends of it on their way home. Those that were given up
        are waited for by nobody.
        """
        inside = sum(len(share.entered) - share.left for share in self._out if share.chunk.window is window)
        return inside - sum(share is not None and share.chunk.window is window for share in self.fenced.values())

    def __repr__(self) -> str:
        return f"<ThreadPool {len(self._slots) - len(self._free)} of {len(self._slots)} busy, {len(self._ready)} ready>"


def _bring_home(chunk: Chunk, ended: list[int], slot: Slot) -> None:
    if slot.verdicts is not None:
        _bring_what_counts(chunk, ended, slot)
        return
    if len(ended) == chunk.count and not chunk.low:
        chunk.next = chunk.low = chunk.count  # all of it by one thread: the common case
    else:
        for index in ended:
            chunk.finish(index)
    chunk.run.left(chunk, len(ended))


def _bring_what_counts(chunk: Chunk, ended: list[int], slot: Slot) -> None:
    """Of a thread that was given up: what was brought home for it then is not counted again, nor what expired."""
    late = [index for index in ended if slot.has_expired((chunk, index))]
    counted = 0
    if not chunk.is_finished:  # a chunk that is may have let go of its messages
        counted = sum(chunk.finish(index) for index in ended if index not in late)
    if late:
        chunk.run.late(chunk, len(late))
    chunk.run.left(chunk, counted)


def _bring_uncommon_home(chunk: Chunk, index: int, result: object, slot: Slot, started: float) -> None:
    if slot.verdicts is not None and slot.has_expired((chunk, index)):
        chunk.run.late(chunk, 1)
    else:
        chunk.run.not_success(chunk, index, result, started)
