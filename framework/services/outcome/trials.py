"""Trials: what a group starts while the handlers of one of its topics fail all: one message at a time, after a pause.

`core/breaker.py` decides; here its messages are taken out of the workers' hands, handed to them again one by one, and
all at once when one succeeds. What was in hand when the breaker opened ends as ever. A retried message counts for the
topic that it was sent to, and queues of the retry topic are held with those of any topic that is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Protocol

import structlog

from framework.core.breaker import Breaker
from framework.core.chunk import Chunk
from framework.core.results import FAILURES, Result
from framework.errors import BodyUndecodable, FrameworkError, bare
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.model.reserved import retry_topic
from framework.net.task_tree import TaskTree
from framework.net.wakeup import Wakeup
from framework.ports import Chance, Clock
from framework.services.pool.run import RUNNING
from framework.services.queue.pull import PullLoop
from framework.services.supervise import supervise

log = structlog.get_logger()

LOOK_MS = 1_000
"""How soon a queue that has something to try again is noticed, or a trial whose queue was taken away."""
CAUSE_MAX = 160
TIMED_OUT = "no result within `timeout`"


class HeldByBreaker(Protocol):
    """The messages that wait, as a kind of group keeps them."""

    def hold(self, pull: PullLoop) -> None:
        """Start no more of the queue's messages."""
        ...

    def put(self, pull: PullLoop, chunk: Chunk) -> None:
        """What was pulled while the queue is held."""
        ...

    def start_one(self, pulls: Iterable[PullLoop], now_ms: int) -> object | None:
        """Start one message of these queues, and name it; None where none can start now."""
        ...

    def is_over(self, trial: object) -> bool:
        """Whether nothing comes of it any more: its queue was taken away, or it was not startable after all."""
        ...

    def release(self, pull: PullLoop) -> None:
        """Start all that waits."""
        ...


class Trials:
    """One per group. On the event loop's thread."""

    def __init__(
        self, group: str, limit: int, held: HeldByBreaker, owned: Mapping[MessageQueue, PullLoop],
        at_once: Callable[[str], int], *, clock: Clock, chance: Chance, tree: TaskTree,
    ) -> None:  # fmt: skip
        """`at_once`: how many messages one call of a topic's handler takes."""
        self._group, self._limit, self._held, self._at_once = group, limit, held, at_once
        self._owned, self._clock, self._chance, self._tree = owned, clock, chance, tree
        self._breakers: dict[str, Breaker] = {}
        self._task: asyncio.Task[None] | None = None
        self._bell = Wakeup()

    def of(self, topic: str) -> Breaker:
        """A topic's breaker. One batch that fails does not open it."""
        found = self._breakers.get(topic)
        if found is None:
            most = self._at_once(topic)
            found = self._breakers[topic] = Breaker(topic, self._limit, most + 1 if most > 1 else 1)
        return found

    @property
    def open(self) -> list[Breaker]:
        return [each for each in self._breakers.values() if each.is_open]

    def adopt(self, limit: int) -> None:
        """Go on with another limit, at once."""
        self._limit = limit
        for breaker in self._breakers.values():
            was_open = breaker.is_open
            cause, failures = breaker.cause, breaker.failures
            if breaker.adopt(limit, self._clock.monotonic_ms()):
                if was_open:
                    self._closed(breaker, reason="the setting was changed")
                else:
                    self._opened(breaker, cause, failures)

    # Queues come and go

    def own(self, pull: PullLoop) -> None:
        """A queue is ours, before it has begun."""
        pull.flow.is_tripped = self._is_held(pull)

    def left(self, pull: PullLoop) -> None:
        """A queue is gone. Nobody here can find out about a topic of which no queue is left, so it begins anew."""
        for breaker in list(self._breakers.values()):
            if not any(self._concerns(breaker, each) for each in self._owned.values()):
                del self._breakers[breaker.topic]
                if breaker.succeeded():
                    self._closed(breaker, reason="no queue of the topic is left here")
        self._held.release(pull)
        self._bell.ring()

    def pulled(self, pull: PullLoop, chunk: Chunk) -> None:
        """What came in while the queue is held."""
        self._held.put(pull, chunk)
        self._bell.ring()

    # What comes of messages

    def succeeded(self, breaker: Breaker) -> None:
        """A handler returned."""
        failures = breaker.failures
        if breaker.succeeded():
            self._closed(breaker, failures=failures)

    def retried_well(self, topic: str) -> None:
        """A message of this topic was handled that came by the retry topic, which holds those of several."""
        breaker = self._breakers.get(topic) or self._breakers.get(retry_topic(self._group))
        if breaker is not None and breaker.failures:
            self.succeeded(breaker)

    def ended(self, pull: PullLoop, tried: object, message: Message, end: Result | None) -> None:
        """A message was not plain success; None where nothing was found out about it.

        Any answer, such as `DeadLetter`, shows that the handler works. A body that cannot be read says nothing about
        it, and has a limit of its own.
        """
        now_ms = self._clock.monotonic_ms()
        # A retried message of a topic that is not consumed here counts for the retry topic: its name is anybody's word.
        breaker = self._breakers.get(message.topic, pull.breaker) if pull.is_retried else pull.breaker
        kind = "" if end is None or end.error_type == BodyUndecodable.__name__ else end.kind
        if end is not None and kind in FAILURES:
            name, text = _cause(end)
            if breaker.failed(now_ms, _identity(message), name, text, tried):
                self._opened(breaker, breaker.cause, breaker.failures)
        elif kind in ("success", "failed") and breaker.failures:
            self.succeeded(breaker)
        for each in self.open:  # also one whose trial was another topic's message, come back for its retry
            if each.trial is tried:
                each.undecided(now_ms, tried)
        if self._task is not None:
            self._bell.ring()

    # Opening and closing

    def _opened(self, breaker: Breaker, cause: str, failures: int) -> None:
        log.error(
            "breaker opened",
            group=self._group, topic=breaker.topic, failures=failures, reason=cause,
            remedy="fix the handler: one message is tried at a time, and the first that succeeds starts all again; "
            "consumers.GROUP.breaker sets the number of failures, and 0 turns this off",
        )  # fmt: skip
        for pull in self._pulls(breaker):
            if not pull.flow.is_tripped:
                pull.flow.is_tripped = True
                self._held.hold(pull)
                pull.bell.ring()
        if self._task is None or self._task.done():
            self._task = supervise(self._tree, f"breaker {self._group}", self._try, self._chance)

    def _closed(self, breaker: Breaker, **why: object) -> None:
        log.info("breaker closed", group=self._group, topic=breaker.topic, **why)
        for pull in self._pulls(breaker):
            pull.flow.is_tripped = self._is_held(pull)
            if not pull.flow.is_tripped:
                self._held.release(pull)
                pull.bell.ring()
        self._bell.ring()

    async def _try(self) -> None:
        """While any breaker is open."""
        RUNNING.set(None)  # the worker that brought us here goes on to other messages
        while breakers := self.open:
            now_ms = self._clock.monotonic_ms()
            look_ms = now_ms + LOOK_MS
            for breaker in breakers:
                if breaker.trial is not None and self._held.is_over(breaker.trial):
                    breaker.undecided(now_ms, breaker.trial)
                if breaker.may_try(now_ms):
                    trial = self._held.start_one(self._pulls(breaker), now_ms)
                    if trial is not None:
                        breaker.begin(trial)
                elif breaker.trial is None:
                    look_ms = min(look_ms, breaker.due_ms)
            await self._bell.wait((look_ms + 1) / 1000)

    def _pulls(self, breaker: Breaker) -> Iterator[PullLoop]:
        """The queues that are held with it."""
        return (pull for pull in list(self._owned.values()) if self._concerns(breaker, pull))

    def _concerns(self, breaker: Breaker, pull: PullLoop) -> bool:
        return pull.breaker is breaker or pull.is_retried

    def _is_held(self, pull: PullLoop) -> bool:
        return any(self._concerns(each, pull) for each in self.open)

    def __repr__(self) -> str:
        return f"<Trials {self._group}: {list(self._breakers.values())}>"


class HeldChunks:
    """The messages of a group that is not orderly: chunks that its workers are not offered."""

    def __init__(self, take_back: Callable[[PullLoop], list[Chunk]]) -> None:
        """`take_back`: have its workers start no more of the queue's messages, and name those."""
        self._take_back = take_back
        self._chunks: dict[PullLoop, list[Chunk]] = {}

    def hold(self, pull: PullLoop) -> None:
        for chunk in self._take_back(pull) if not pull.flow.window.is_draining else ():
            self.put(pull, chunk)

    def put(self, pull: PullLoop, chunk: Chunk) -> None:
        self._chunks.setdefault(pull, []).append(chunk)

    def start_one(self, pulls: Iterable[PullLoop], now_ms: int) -> Chunk | None:
        """The queue that was tried longest ago, or never: one that fails for a reason of its own stops no other."""
        wanted = set(pulls)
        for pull in [each for each in self._chunks if each in wanted]:
            chunks = self._chunks.pop(pull)
            while chunks:
                chunk = chunks.pop(0)
                if chunk.next >= chunk.count:
                    continue  # its queue was moved, or is another member's
                if chunk.count > 1:
                    chunks.insert(0, chunk.window.cut(chunk, 1))
                if chunks:
                    self._chunks[pull] = chunks  # the last one now
                pull.pool.offer(chunk)
                return chunk
        return None

    def is_over(self, trial: object) -> bool:
        assert isinstance(trial, Chunk), "these trials are chunks"
        return trial.window.is_draining or trial.is_finished

    def release(self, pull: PullLoop) -> None:
        for chunk in self._chunks.pop(pull, ()):
            if chunk.next < chunk.count:
                pull.pool.offer(chunk)


def _cause(end: Result) -> tuple[str, str]:
    if end.kind == "timed_out":
        return TIMED_OUT, ""
    return end.error_type or "exception", "" if end.error is None else bare(str(end.error), CAUSE_MAX)


def _identity(message: Message) -> Hashable:
    try:
        return message.message_id
    except FrameworkError:
        return message.queue, message.queue_offset  # its properties cannot be read
