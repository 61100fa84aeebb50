"""A worker pool of tasks: workers take chunks and await the handler, message by message.

Handing over costs nothing per message: a worker keeps a chunk until it is used up, and has one idle colleague invited
when more than one message is left. The invitation runs when the worker's handler suspends; if no handler does, no other
worker is woken. The pool knows nothing of offsets, retries or hooks: those belong to the run.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from framework.core.chunk import Chunk, Run
from framework.core.expiry import Slot
from framework.core.window import Window
from framework.model.message import Message
from framework.ports import Clock
from framework.services.call.run_once import failure_awaited, heeded
from framework.services.pool.run import BREATH_S, RUNNING, Breath

HIRED_A_TURN = 50  # workers that take the places of others: a turn of the loop stays one of milliseconds


def _nobody(_: Iterable[Slot]) -> None:
    """A pool whose workers are started by whoever made it."""


class WorkerPool:
    """The workers of one group. Its owner starts `work` once a slot, as tasks, and offers chunks."""

    def __init__(self, size: int, clock: Clock, hire: Callable[[Iterable[Slot]], None] = _nobody) -> None:
        """`hire` starts `work` for slots that come to be while the pool is at it."""
        self._slots: dict[Slot, Any] = {Slot(): None for _ in range(size)}
        """With their workers. While one waits for a thread, that is named in the slot."""
        self.fenced: dict[Slot, None] = {}
        """Those whose handler was given up and has not ended yet."""
        self._is_crowded = False
        """There are more slots than places: whoever comes for a chunk leaves instead."""
        self._size, self._clock, self._hire = size, clock, hire
        self._ready: deque[Chunk] = deque()
        self._idle: dict[asyncio.Future[None], None] = {}
        self._is_refilling = False
        """Places of handlers that were given up are about to be filled."""
        self._breath = Breath(clock.monotonic)
        self._coming = 0
        """Workers that were woken and have not come yet."""
        self._is_inviting = False
        """An invitation is under way."""

    @property
    def slots(self) -> tuple[Slot, ...]:
        """One a worker; those that are too many are among them until they have left."""
        return tuple(self._slots)

    def offer(self, chunk: Chunk) -> None:
        """Have the chunk's messages handled, after those offered before it."""
        self._ready.append(chunk)
        if self._idle and not self._coming and not self._breath.turning:
            self._wake_one()

    def take_back(self, window: Window) -> list[Chunk]:
        """Start no more of the window's messages: those that nobody has started come back."""
        return window.take_back()

    def resize(self, size: int) -> tuple[Slot, ...]:
        """Have `size` workers from now on; comes back with the slots whose `work` must be started.

        Where they are too many, all come out of their chunks when their messages end, and who comes first leaves: one
        that was chosen now might be at work for long, and those that stay would start more than `size` beside it.
        """
        self._size = size
        self._is_crowded = len(self._slots) > size
        if self._is_crowded:
            for slot in self._slots:
                slot.until = 0
            self._wake_all()
        return self._filled(size)

    def fence(self, slot: Slot) -> None:
        """Give up the slot's handler: it is cancelled, and whether or not it heeds that, another worker takes over."""
        slot.until = 0
        worker = self._slots[slot]
        self._forget(slot)
        self.fenced[slot] = None
        worker.cancel()
        self._refill_soon()

    def _refill_soon(self) -> None:
        """Fill empty places a few at a time, behind all that was cancelled in this turn of the loop: a thousand that
        are over their limit together shall hear of it before a thousand others are started.
        """
        if not self._is_refilling:
            self._is_refilling = True
            asyncio.get_running_loop().call_later(0, self._refill)

    def _refill(self) -> None:
        self._is_refilling = False
        self._hire(self._filled(HIRED_A_TURN))
        if self._places > len(self._slots):
            self._refill_soon()

    @property
    def missing(self) -> int:
        """How many places are empty because too many handlers that were given up do not end."""
        return self._size - self._places

    @property
    def _places(self) -> int:
        """Handlers that were given up take at most as many places beside those of the pool."""
        return max(min(self._size, 2 * self._size - len(self.fenced)), 0)

    def _filled(self, most: int) -> tuple[Slot, ...]:
        """So many new slots at most, where places are empty."""
        new = tuple([Slot() for _ in range(min(self._places - len(self._slots), most))])
        self._slots.update(dict.fromkeys(new))
        return new

    def _forget(self, slot: Slot) -> None:
        self._slots.pop(slot, None)
        self._is_crowded = len(self._slots) > self._size

    async def work(self, slot: Slot) -> None:  # noqa: PLR0915 - written out: every message passes here
        """One worker, until it is one too many. This loop is every message's way: see tests/house for its budget."""
        self._loop = asyncio.get_running_loop()
        ready, monotonic, call_soon = self._ready, self._clock.monotonic, self._loop.call_soon
        slot.worker = self._slots[slot] = asyncio.current_task()
        RUNNING.set(slot)
        breath = self._breath
        while (chunk := self._at_hand(slot) or await self._next_chunk(slot)) is not None:
            run = chunk.run
            handler: Callable[[Message], Any] = run.call
            messages, count, ended = chunk.messages, chunk.count, 0
            slot.chunk, slot.until = chunk, count
            entered = monotonic()
            if self._idle and not self._is_inviting and (chunk.next + 1 < count or len(ready) > 1):
                self._is_inviting = True
                call_soon(self._invite)
            while (index := chunk.next) < slot.until:
                chunk.next = index + 1
                slot.index = index
                slot.started = monotonic()
                try:
                    result = await handler(messages[index])
                except Exception as error:  # noqa: BLE001 - border: the handler's
                    result = error
                except BaseException as error:  # noqa: BLE001 - border: the handler's
                    result = _failure(slot, error)
                if result is not None or slot.verdicts is not None:
                    if ended:  # whoever counts failures in a row must have heard of the successes between
                        run.left(chunk, ended)
                        ended = 0
                    _not_success(run, slot, chunk, index, result)
                elif index == chunk.low and not chunk.ahead:
                    chunk.low = index + 1
                    ended += 1
                else:
                    chunk.finish(index)
                    ended += 1
            slot.chunk = None
            now = monotonic()
            chunk.spent += now - entered
            if ended or slot.verdicts is None:
                run.left(chunk, ended)  # who was given up is told of by whoever did that
            # Idle workers must not keep a pull's bytes alive, nor may an error do so by its traceback.
            del chunk, run, handler, messages, result
            if now - breath.at < BREATH_S or (len(ready) < 2 and not (ready and ready[0].next < ready[0].count)):
                continue  # to wait for a chunk is a turn of the loop, too
            try:
                await breath.draw()  # now and then, or handlers that never suspend would starve the pulls
            except asyncio.CancelledError as error:
                failure_awaited(error)  # a late one of a handler's own; raised again where it is ours
        self._left(slot)

    def _left(self, slot: Slot) -> None:
        """A worker is gone: one too many, or given up long ago."""
        self._forget(slot)
        if slot in self.fenced:
            del self.fenced[slot]
            self._refill_soon()
        if self._idle and any(waiting.next < waiting.count for waiting in self._ready):
            self._wake_one()  # the bell that was rung for this one may have been meant for work

    def _at_hand(self, slot: Slot) -> Chunk | None:
        """What to work on without waiting for it."""
        ready = self._ready
        if self._is_crowded or slot.verdicts is not None:
            return None
        while ready:
            if ready[0].next < ready[0].count:
                return ready[0]
            ready.popleft()
        return None

    async def _next_chunk(self, slot: Slot) -> Chunk | None:
        """The same where nothing is at hand, as soon as there is something; None where the worker is to leave."""
        while not self._is_crowded and slot.verdicts is None:
            if slot.worker.cancelling():
                await heeded(slot.worker)  # its handler went on although it was cancelled
                if (chunk := self._at_hand(slot)) is not None:
                    return chunk
                continue
            bell: asyncio.Future[None] = self._loop.create_future()
            self._idle[bell] = None
            try:
                await bell
            except asyncio.CancelledError as error:
                failure_awaited(error)
            finally:
                self._idle.pop(bell, None)
                self._coming -= bell.done() and not bell.cancelled()
            if (chunk := self._at_hand(slot)) is not None:
                return chunk
        return None

    def _invite(self) -> None:
        """Runs once the worker that asked for it suspends. If its handlers never did, there is nothing to share."""
        self._is_inviting = False
        if not self._breath.turning and self._idle and any(chunk.next < chunk.count for chunk in self._ready):
            self._wake_one()

    def _wake_one(self) -> None:
        while self._idle:
            bell, _ = self._idle.popitem()
            if not bell.done():  # else its worker is being cancelled, and another must come
                bell.set_result(None)
                self._coming += 1
                return

    def _wake_all(self) -> None:
        while self._idle:
            self._wake_one()

    def runs(self, window: Window) -> int:
        """How many handlers run on messages of this window."""
        return sum(slot.chunk is not None and slot.chunk.window is window for slot in self._slots)

    def __repr__(self) -> str:
        busy = sum(slot.chunk is not None for slot in self._slots)
        return f"<WorkerPool {busy} of {len(self._slots)} busy, {len(self._ready)} chunks ready>"


def _failure(slot: Slot, error: BaseException) -> object:
    if slot.verdicts is not None and isinstance(error, asyncio.CancelledError):
        return error  # it heeds that it was given up
    return failure_awaited(error)


def _not_success(run: Run, slot: Slot, chunk: Chunk, index: int, result: object) -> None:
    """Not plain success, or of a handler that was given up: its message was settled long ago."""
    if not slot.has_expired((chunk, index)):
        if result is not None:
            run.not_success(chunk, index, result, slot.started)
        else:
            chunk.finish(index)
            run.left(chunk, 1)
    elif not isinstance(result, asyncio.CancelledError):
        run.late(chunk, 1)
