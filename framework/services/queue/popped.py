"""PopQueue: the popping of one broker's queues: pops, acknowledgements, renewals, and what is given back.

To its pull loop it is the queue's pulls. Whatever it holds is renewed while it waits or is handled, acknowledged once
it has ended, and given back where it is not handled here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

import structlog

from framework.client.popper import NOT_SUPPORTED, Popper, PopTaken
from framework.core import limits
from framework.core.chunk import Chunk
from framework.core.held import Entry, Held
from framework.errors import BrokerUnreachable, FrameworkError, is_said
from framework.model.message import Message
from framework.model.pulled import Failed, NothingNew, Popped, PullResult
from framework.model.queue import MessageQueue
from framework.net.task_tree import TaskTree
from framework.net.wakeup import Wakeup
from framework.ports import Clock
from framework.services.queue.pacing import Pacing
from framework.wire.codes import ResponseCode
from framework.wire.requests.receipts import Receipt

log = structlog.get_logger()

_ACKS_MAX = 1_024  # of one request
_TOGETHER = 32  # requests of one sort at once: what one pop brings
_AGAIN_MS = 1_000
_LAST_S = 1.0  # how long a leave waits for the last pop; a long poll is longer


class PopQueue:
    """One per owned queue that is popped."""

    def __init__(
        self, group: str, queue: MessageQueue, pops: Popper, clock: Clock, pacing: Pacing,
        wanted: Callable[[Message], bool], tree: TaskTree, portion: Callable[[], int] = lambda: limits.POP_BATCH,
    ) -> None:  # fmt: skip
        """`wanted`: the second check of a message's tag, by text. `portion`: how many may be popped at once now."""
        self.held: Held[Receipt] = Held()
        self._where, self._queue = {"group": group, "queue": str(queue)}, queue
        self._pops, self._clock, self._pacing, self._wanted, self._portion = pops, clock, pacing, wanted, portion
        self._acks: list[Entry[Receipt]] = []
        """Ended, and not acknowledged yet."""
        self._returns: list[Entry[Receipt]] = []
        """Not to be handled here, and not given back yet."""
        self.is_paced = False
        """What was popped waits until the group's rate lets it go."""
        self._bell = Wakeup()
        self._chunks: Callable[[], Sequence[Chunk]] = tuple
        self._is_failing = self._is_refused = self._is_left = self._is_damaged = False
        self._renewing: dict[Entry[Receipt], asyncio.Event] = {}
        """Those whose renewal is under way: their receipts are outdated as soon as the broker has it."""
        self._tree = tree
        self._asking: asyncio.Task[Popped | NothingNew | Failed] | None = None
        self._awaits = False
        """Whether the pull loop waits for the pop that is under way."""
        self.lost = 0
        """Messages whose time was over before they ended: other members were given them."""

    def pull(self, offset: int, committable: Callable[[], int], *, alone: bool = False) -> Awaitable[PullResult]:
        """As a queue's pulls. Nothing rides on a pop, and none is for an offset."""
        return self._pop(offset)

    async def _pop(self, offset: int) -> PullResult:
        """A pop outlives its caller: what the broker hands out to one that nobody awaits would be hidden from all."""
        if self._asking is None or self._asking.done():
            self._asking = self._tree.start(self._ask(), name=f"pop {self._where['queue']}")
        self._awaits = True
        try:
            answer = await asyncio.shield(self._asking)
        except asyncio.CancelledError:
            self._let_go(self._asking)
            raise
        finally:
            self._awaits = False
        if isinstance(answer, Failed):
            self._name_refusal(answer)
            return answer
        self._is_refused = False
        if isinstance(answer, NothingNew):
            return NothingNew(offset, 0, offset)
        return answer

    async def paced(self, messages: Sequence[Message]) -> None:
        """Wait until the group's rate lets these go; they are renewed meanwhile."""
        if self._pacing.bucket is None or not messages:
            return
        self.is_paced = True
        try:
            await self._pacing.turn(len(messages))
        except BaseException:  # cancelled: the queue is left, or its group paused
            self.held.set_astray(messages)
            raise
        finally:
            self.is_paced = False

    def _let_go(self, asking: asyncio.Task[Popped | NothingNew | Failed]) -> None:
        """Its caller was cancelled in the very turn in which the answer came: nobody else handles what is in it."""
        if asking.done() and not asking.cancelled() and asking.exception() is None:
            answer = asking.result()
            if isinstance(answer, Popped):
                self.held.set_astray(answer.messages)

    async def _ask(self) -> Popped | NothingNew | Failed:
        asked_ms = self._clock.monotonic_ms()
        bucket = self._pacing.bucket
        most = self._portion()
        taken = await self._pops.pop(most if bucket is None else min(most, bucket.portion))
        if not isinstance(taken, PopTaken):
            return taken
        self._name_damage(taken.damaged)
        # Counted from the asking: the broker began later.
        until_ms = asked_ms + self._pops.invisible_ms
        entries = [self.held.take(message, receipt, until_ms) for message, receipt in taken.messages]
        messages = []
        for entry in entries:
            if self._wanted(entry.message):
                messages.append(entry.message)
            elif self.held.drop(entry):
                self._acks.append(entry)
        if not self._awaits:
            self.held.set_astray(messages)
            if self._is_left:
                await self._give_back(self.held.take_all())
        return Popped(messages, taken.size, taken.rest)

    def begin(self, chunks: Callable[[], Sequence[Chunk]]) -> None:
        """`chunks` are those that its pull loop holds."""
        self._chunks = chunks

    def left(self, chunk: Chunk) -> None:
        """A worker leaves a chunk: what has ended of it is acknowledged."""
        ended = self.held.ended(chunk)
        if ended:
            self._acks += ended
            self._bell.ring()

    async def run(self) -> None:
        """Acknowledge what ends and renew what has not, until the queue is left."""
        look_ms = min(self._pops.invisible_ms // 8, limits.FLUSH_MS)
        while True:
            await self._bell.wait(self._clock.monotonic() + look_ms / 1000)
            self._gather()
            is_sound = await self._acknowledge() and await self._renew() and await self._give_back(self._astray())
            if not is_sound:
                await self._bell.wait(self._clock.monotonic() + _AGAIN_MS / 1000)

    async def release(self) -> None:
        """The queue is left: acknowledge what has ended, give back all else with a time that is over at once."""
        self._gather()
        self._is_left = True
        await self._renewed()
        await self._acknowledge()
        rest = [*self._astray(), *self.held.take_all()]
        await self._renewed()
        await self._give_back(rest)
        if self._asking is not None and not self._asking.done():
            # What was given back may be handed out to our own last pop, which gives it back again.
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_S):
                    await asyncio.shield(self._asking)

    def give_back(self, messages: Sequence[Message]) -> None:
        """Nobody has started these, and nobody will here: they come back at once, one attempt later."""
        for message in messages:
            if (entry := self.held.find(message)) is not None and self.held.drop(entry) and not entry.is_lost:
                self._returns.append(entry)
        self._bell.ring()

    def _astray(self) -> list[Entry[Receipt]]:
        """Take out what is to be given back."""
        found, self._returns = [*self._returns, *self.held.strays()], []
        for entry in found:
            self.held.drop(entry)
        return found

    async def retry(self, message: Message, delay_ms: int) -> bool:
        """Have a message that failed come back after a delay, one attempt later; False where it was not popped here.

        Where the broker cannot be had it comes back by itself, when its time is over.
        """
        entry = self.held.find(message)
        if entry is None:
            return False
        self.held.drop(entry)
        if entry.is_lost:
            return True
        if (renewal := self._renewing.get(entry)) is not None:
            await renewal.wait()
        try:
            await self._pops.change_time(entry.receipt, max(delay_ms, 1))
        except FrameworkError as error:
            log.debug("retry not requested", **self._where, reason=str(error))
        return True

    def _gather(self) -> None:
        """What has ended inside chunks that workers are still at."""
        for chunk in self._chunks():
            self._acks += self.held.ended(chunk)

    async def _acknowledge(self) -> bool:
        """Whether the broker took them; if not, they are kept for as long as their receipts count."""
        while self._acks:
            batch, self._acks = self._acks[:_ACKS_MAX], self._acks[_ACKS_MAX:]
            try:
                await self._pops.acknowledge([entry.receipt for entry in batch])
            except FrameworkError as error:
                now_ms = self._clock.monotonic_ms()
                counting = [entry for entry in batch if entry.until_ms > now_ms]
                self.lost += len(batch) - len(counting)
                self._acks = counting + self._acks
                self._name_failure(error)
                return False
            self._name_failure(None)
        return True

    async def _renew(self) -> bool:
        due = self.held.to_renew(self._clock.monotonic_ms(), self._pops.invisible_ms)
        return await self._each(due, self._renew_one)

    async def _renew_one(self, entry: Entry[Receipt]) -> FrameworkError | None:
        if self.held.find(entry.message) is not entry:
            return None  # it has ended, or was given back, since
        period_ms, asked_ms = self._pops.invisible_ms, self._clock.monotonic_ms()
        done = self._renewing[entry] = asyncio.Event()
        try:
            renewed = await self._pops.change_time(entry.receipt, period_ms)
        except FrameworkError as error:
            return error
        finally:
            del self._renewing[entry]
            done.set()
        if renewed is not None:
            entry.receipt, entry.until_ms = renewed, asked_ms + period_ms
        elif self.held.find(entry.message) is entry:
            entry.is_lost = True
            self.lost += 1
            log.warning("popped message lost", **self._where, offset=entry.message.queue_offset)
        return None

    async def _renewed(self) -> None:
        """Wait for renewals that are under way: whoever uses a receipt from before is not heard by the broker."""
        for done in list(self._renewing.values()):
            await done.wait()

    async def _give_back(self, entries: Sequence[Entry[Receipt]]) -> bool:
        return await self._each(entries, self._give_back_one)

    async def _give_back_one(self, entry: Entry[Receipt]) -> FrameworkError | None:
        self.held.drop(entry)
        try:
            await self._pops.change_time(entry.receipt, 1)
        except FrameworkError as error:
            return error
        return None

    async def _each(
        self,
        entries: Sequence[Entry[Receipt]],
        ask: Callable[[Entry[Receipt]], Coroutine[Any, Any, FrameworkError | None]],
    ) -> bool:
        """Ask for each, several at once: one by one, a slow disk would let the last one's time run out. False where the
        broker could not be reached: the others' time ends by itself.
        """
        for begin in range(0, len(entries), _TOGETHER):
            part = entries[begin : begin + _TOGETHER]
            asking = [self._tree.start(ask(entry), name=f"hold {self._where['queue']}") for entry in part]
            failures = [error for task in asking if (error := await task) is not None]
            self._name_failure(failures[0] if failures else None)
            if any(isinstance(error, BrokerUnreachable) for error in failures):
                return False
        return True

    def _name_failure(self, error: FrameworkError | None) -> None:
        """Log on entering and on leaving the failing state."""
        if error is not None and not self._is_failing:
            told = log.debug if is_said(error) else log.warning
            told("acknowledgements failed", **self._where, reason=str(error))
        elif error is None and self._is_failing:
            log.info("acknowledgements recovered", **self._where)
        self._is_failing = error is not None

    def _name_damage(self, damaged: Sequence[tuple[int, str]]) -> None:
        """Log once, until a pop brings none: it comes back each time that it has been hidden for."""
        if damaged and not self._is_damaged:
            (offset, reason), *_ = damaged
            log.error(
                "record damaged",
                **self._where, topic=self._queue.topic, broker=self._queue.broker,
                offset=offset, reason=reason, then="comes back",
            )  # fmt: skip
        self._is_damaged = bool(damaged)

    def _name_refusal(self, failed: Failed) -> None:
        if failed.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and not self._is_refused:
            self._is_refused = True
            log.error("pop refused", **self._where, reason=NOT_SUPPORTED, remedy="write delivery: pull for this group")
