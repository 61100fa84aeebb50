"""RetrySender: carries out what `core.retry` decided where the broker must keep a copy.

The order is the promise: the copy is durable on a broker, and only then has the message ended here. Two roads lead
there: the message's own broker copies it, or some broker is sent it as a normal message of the retry topic. Where
neither can be had, the message is parked and only the *sending* is tried again; the worker has long gone on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import structlog

from framework import marks
from framework.core import limits
from framework.core.backoff import Backoff
from framework.core.chunk import Chunk
from framework.core.retry import SendBack, goes_round
from framework.core.window import Window
from framework.errors import BrokerUnreachable, FrameworkError
from framework.model.death_reason import DeathReason
from framework.model.message import Message
from framework.net.task_tree import TaskTree
from framework.ports import Chance

log = structlog.get_logger()


class SendsBack(Protocol):
    """The calls of the client that settling needs."""

    async def send_back(self, message: Message, group: str, *, delay_level: int, max_retries: int) -> None: ...
    async def send_again(
        self, message: Message, group: str, *, delay_level: int, max_retries: int, spares_own: bool,
        why: DeathReason | None = None,
    ) -> str: ...  # fmt: skip
    async def dead_letter(self, message: Message, group: str, why: DeathReason | None = None) -> None: ...


def _nothing() -> None:
    """Nobody waits for the end of this one."""


@dataclass(slots=True, eq=False)
class Parked:
    """One message whose copy is not on the broker yet."""

    chunk: Chunk
    index: int
    message: Message
    decision: SendBack
    settled: Callable[[Parked], None]
    """Called once, when the copy is durable."""
    given_up: Callable[[], None]
    """Called instead, when the queue goes elsewhere before a copy could be had: its next owner is given the message."""
    backoff: Backoff
    why: DeathReason | None = None
    """Of a dead letter: they travel with it."""
    due: float = 0.0
    """When it is tried next, on the loop's clock. A try that fails ahead of that changes nothing."""
    timer: asyncio.TimerHandle | None = None
    """While it is parked."""


class RetrySender:
    """One per group: at most RETRY_SENDERS send-backs under way, as many tasks as there is work for."""

    def __init__(self, group: str, max_retries: int, brokers: SendsBack, tree: TaskTree, chance: Chance) -> None:
        self._group, self._max_retries = group, max_retries
        self._brokers, self._tree, self._chance = brokers, tree, chance
        self._waiting: deque[Parked] = deque()
        self._tasks = 0
        """Tasks; one that was only just started has no message yet."""
        self._sending = 0
        self._parked: dict[Parked, None] = {}
        self._of_window: dict[Window, int] = {}
        self._stuck: dict[Window, tuple[int, str]] = {}
        """How many messages of a queue cannot be sent anywhere for now, and why the last of them cannot."""
        self._of_next_owner: dict[Window, int] = {}
        """How many of those were given up since the queue was said to be stuck."""
        self._hurried = 0
        """How often all were to be tried at once. What was under way then may fail of what was before."""
        self._round: set[str] = set()
        """Brokers whose messages take the other road."""

    @property
    def pending(self) -> int:
        """Messages whose copies are not durable yet."""
        return len(self._waiting) + self._sending + len(self._parked)

    def pending_for(self, window: Window) -> int:
        """The same for one queue: it is not left before they are, or only at the drain limit."""
        return self._of_window.get(window, 0)

    @property
    def stuck(self) -> int:
        """Messages that could be sent neither way, so far."""
        return sum(count for count, _ in self._stuck.values())

    def stuck_because(self, window: Window) -> str | None:
        """Why messages of this queue wait for their copies; None where none does."""
        found = self._stuck.get(window)
        return None if found is None else f"cannot send back: {found[1]}"

    def put(
        self,
        chunk: Chunk,
        index: int,
        decision: SendBack,
        settled: Callable[[Parked], None],
        given_up: Callable[[], None] = _nothing,
        why: DeathReason | None = None,
    ) -> None:
        """Have a broker keep a copy of the message, then call `settled`."""
        backoff = Backoff(limits.SEND_BACK_DELAY_MS, limits.SEND_BACK_DELAY_MAX_MS)
        job = Parked(chunk, index, chunk.messages[index], decision, settled, given_up, backoff, why)
        self._of_window[chunk.window] = self._of_window.get(chunk.window, 0) + 1
        self._enqueue(job)

    def hurry(self, window: Window | None = None) -> None:
        """Try what is parked at once: its queue is being left, or (for all) a broker is there again.

        What was pulled before a queue was moved is nobody's any more, and is forgotten on the way.
        """
        self._hurried += window is None
        for job in [job for job in self._parked if window in {None, job.chunk.window} or job.chunk.window.is_closed]:
            self._unpark(job)

    def _done_with(self, job: Parked, *, is_sent: bool) -> None:
        window = job.chunk.window
        remaining = self._of_window.pop(window) - 1
        if remaining:
            self._of_window[window] = remaining
        if job.backoff.failures:
            count, reason = self._stuck.pop(window)
            given_up = self._of_next_owner.pop(window, 0) + (not is_sent)
            if count > 1:
                self._stuck[window] = count - 1, reason
                if given_up:
                    self._of_next_owner[window] = given_up
            elif given_up:
                log.info(
                    "parked messages given up",
                    group=self._group, queue=str(job.message.queue), messages=given_up,
                    reason="the queue was left before a broker stored their copies; its next owner gets them",
                )  # fmt: skip
            else:
                log.info("parked messages sent", group=self._group, queue=str(job.message.queue))

    def _enqueue(self, job: Parked) -> None:
        self._waiting.append(job)
        if self._tasks < limits.RETRY_SENDERS:
            self._tasks += 1
            self._tree.start(self._settle_waiting(), name=f"settle {self._group}")

    async def _settle_waiting(self) -> None:
        try:
            while self._waiting:
                try:
                    await self._settle(self._waiting.popleft())
                except Exception:  # border: the loop's; what a message's end calls must not leave the others waiting
                    log.exception("settling failed", group=self._group)
        finally:
            self._tasks -= 1

    async def _settle(self, job: Parked) -> None:
        self._sending += 1
        hurried = self._hurried
        try:
            await self._copy(job)
            await marks.stretched("a copy is durable")
        except FrameworkError as error:
            self._park(job, error, is_hurried=hurried != self._hurried)
            return
        except Exception as error:  # border: whatever it is, the message has no copy, and waits for one as any other
            log.exception("settling failed", group=self._group, queue=str(job.message.queue))
            self._park(job, error)
            return
        finally:
            self._sending -= 1
        self._done_with(job, is_sent=True)
        job.settled(job)

    async def _copy(self, job: Parked) -> None:
        """Until some broker holds a copy; raises where none could be had now."""
        message, group, level, broker = job.message, self._group, job.decision.level, job.message.queue.broker
        try:
            if job.why is not None:
                await self._brokers.dead_letter(message, group, job.why)
            else:
                if marks.rarely("a send-back fails"):
                    raise BrokerUnreachable("a send-back that failed")
                await marks.stretched("a message is sent back")
                await self._brokers.send_back(message, group, delay_level=level, max_retries=self._max_retries)
        except FrameworkError as error:
            if not goes_round(error, job.backoff.failures):
                raise
            refusal = error
        else:
            if broker in self._round:
                self._round.remove(broker)
                log.info("send-back recovered", group=group, broker=broker)
            return
        await marks.stretched("a copy takes the other road")
        taker = await self._brokers.send_again(
            message, group, delay_level=level, max_retries=self._max_retries,
            spares_own=isinstance(refusal, BrokerUnreachable), why=job.why,
        )  # fmt: skip
        marks.sometimes("a copy took the other road")
        if broker not in self._round:
            self._round.add(broker)
            log.warning(
                "send-back failed",
                group=group, broker=broker, to=taker, reason=str(refusal),
            )  # fmt: skip

    def _park(self, job: Parked, error: Exception, *, is_hurried: bool = False) -> None:
        """Try the sending again later; at once where a broker came back while it was tried.

        The message stays unfinished, so no commit passes it.
        """
        marks.sometimes("a message was parked")
        window, queue = job.chunk.window, str(job.message.queue)
        count, _ = self._stuck.get(window, (0, ""))
        if not count:
            log.warning(
                "message parked", group=self._group, queue=queue, offset=job.message.queue_offset, reason=str(error)
            )
        self._stuck[window] = count + (not job.backoff.failures), str(error)
        loop = asyncio.get_running_loop()
        if loop.time() >= job.due:
            job.due = loop.time() + job.backoff.failed(self._chance.random()) / 1000
        if window.is_draining:  # its next owner is given the message again, and the handler runs once more
            self._give_up(job)
            return
        if is_hurried:
            self._enqueue(job)
            return
        self._parked[job] = None
        job.timer = loop.call_at(job.due, self._unpark, job)

    def _unpark(self, job: Parked) -> None:
        del self._parked[job]
        if job.timer is not None:
            job.timer.cancel()
        if job.chunk.window.is_closed:
            self._give_up(job)
        else:
            self._enqueue(job)

    def _give_up(self, job: Parked) -> None:
        self._done_with(job, is_sent=False)
        job.given_up()

    def __repr__(self) -> str:
        return (
            f"<RetrySender {self._group}: {self._sending} sending, {len(self._waiting)} waiting, "
            f"{len(self._parked)} parked>"
        )
