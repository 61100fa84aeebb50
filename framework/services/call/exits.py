"""Exits: a message whose handler ends its process again and again fails like any other, and does not end all processes.

Around a call stands a note of its message, which outlives the process (`notes.py`): its queue and offset, and from its
second run on its name, since copies that are retries lie elsewhere. The parent counts the ends, and has those messages
accused that were in hand. One that was so twice runs alone, so that the third end names one message; an end beside
others, in a process that had not heard of its second one, is no third one.
It knows no process and decides nothing about retries: what it answers is a failure, and the group's limit holds.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from framework.core.results import Result
from framework.model.message import Message
from framework.model.outcome import RetryLater
from framework.model.queue import MessageQueue
from framework.services.call.batch_calls import Many, Results
from framework.services.call.notes import ALONE_FROM, ENDS_MAX, NOWHERE, EndsSoFar, Notes, key_of_name, key_of_place
from framework.services.call.run_once import ENDS

NONE = EndsSoFar(0, 0)
HEARD_SECONDS = 1.0
"""Another process may have ended by it this very moment, and the parent is about to say so."""
RETRIED = "retry"


@dataclass(slots=True)
class ExitWatch:
    """One per application."""

    notes: Notes
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    thread_turn: threading.Lock = field(default_factory=threading.Lock)
    """Accused messages run one after the other."""


class ExitGuard:
    """Of one handler: what its calls are noted as, and what becomes of accused messages."""

    def __init__(
        self, exits: ExitWatch, group: str, place: str, policy: str, max_retries: int, *, moves: bool = False
    ) -> None:
        """`moves`: a message that is not answered comes again from another place, as one that was popped does."""
        self._exits, self._notes, self._group, self._place = exits, exits.notes, group, place
        self._last = max_retries if policy == RETRIED else None
        """Behind this attempt it is run all the same, where the policy says so."""
        self._moves = moves
        self._there: tuple[MessageQueue | None, int] = (None, NOWHERE)
        """The queue of the last message, and its number among the notes."""

    def call(self, inner: Callable[[Message], Any], *, is_async: bool) -> Callable[[Message], Any]:
        """The call of a handler that is given one message."""
        notes, begin = self._notes, self._begin

        async def noted(message: Message, *, is_accused: bool = False, is_alone: bool = False) -> object:
            at = begin(message, is_accused=is_accused, is_alone=is_alone)
            try:
                result: object = await inner(message)
            except ENDS:
                notes.ends_all(at)
                raise
            except BaseException:
                notes.end(at)
                raise
            notes.end(at)
            return result

        async def awaited(message: Message) -> object:
            ends = self._ends(message)
            if ends.times < ALONE_FROM:
                return await noted(message, is_accused=ends.times > 0)
            return await self._alone(message, ends, partial(noted, message, is_accused=True, is_alone=True))

        def noted_at_once(message: Message, *, is_accused: bool = False, is_alone: bool = False) -> object:
            at = begin(message, is_accused=is_accused, is_alone=is_alone)
            try:
                result = inner(message)
            except ENDS:
                notes.ends_all(at)
                raise
            except BaseException:
                notes.end(at)
                raise
            notes.end(at)
            return result

        def at_once(message: Message) -> object:
            ends = self._ends(message)
            if ends.times < ALONE_FROM:
                return noted_at_once(message, is_accused=ends.times > 0)
            return self._alone_at_once(message, ends, partial(noted_at_once, message, is_accused=True, is_alone=True))

        plain, looked_at = (noted, awaited) if is_async else (noted_at_once, at_once)

        def call(message: Message) -> Any:
            return looked_at(message) if notes.accused else plain(message)

        return call

    def many(self, inner: Many, *, is_async: bool, is_orderly: bool) -> Many:
        """The call of a handler of batches: accused messages are batches of their own."""

        async def noted(messages: Sequence[Message], *, is_alone: bool = False) -> Results:
            with self._in_hand(messages, is_alone=is_alone):
                results: Results = await inner(messages)
            return results

        def noted_at_once(messages: Sequence[Message], *, is_alone: bool = False) -> Results:
            with self._in_hand(messages, is_alone=is_alone):
                results: Results = inner(messages)
            return results

        async def awaited(messages: Sequence[Message]) -> Results:
            if not self._notes.accused:
                return await noted(messages)
            found: list[object] = []
            for part, ends in self._parts(messages):
                alone = partial(noted, part, is_alone=True)
                results = await (noted(part) if ends is None else self._alone(part[0], ends, alone))
                if _is_last(found, results, len(part), is_orderly=is_orderly):
                    break
            return found

        def at_once(messages: Sequence[Message]) -> Results:
            if not self._notes.accused:
                return noted_at_once(messages)
            found: list[object] = []
            for part, ends in self._parts(messages):
                alone = partial(noted_at_once, part, is_alone=True)
                results = noted_at_once(part) if ends is None else self._alone_at_once(part[0], ends, alone)
                if _is_last(found, results, len(part), is_orderly=is_orderly):
                    break
            return found

        return awaited if is_async else at_once

    @contextmanager
    def _in_hand(self, messages: Sequence[Message], *, is_alone: bool) -> Iterator[None]:
        notes = self._notes
        is_calm = not notes.accused
        places = [
            self._begin(each, is_accused=not is_calm and self._ends(each).times > 0, is_alone=is_alone)
            for each in messages
        ]
        has_ended_all = False
        try:
            yield
        except ENDS:
            has_ended_all = True
            raise
        finally:
            for at in places:
                if not has_ended_all:
                    notes.end(at)
                elif len(places) == 1:
                    notes.ends_all(at)

    def _begin(self, message: Message, *, is_accused: bool, is_alone: bool) -> int:
        queue = message.queue
        known, number = self._there
        if queue is not known:
            number = self._notes.place(self._group, self._place, queue)
            self._there = (queue, number)  # at once: threads share it
        at = self._notes.begin(number, message.queue_offset)
        if is_accused or self._moves:
            self._notes.name(at, message.message_id, message.attempt, is_alone=is_alone)
        return at

    # Accused messages

    def _ends(self, message: Message) -> EndsSoFar:
        accused = self._notes.accused
        found = accused.get(key_of_place(self._group, message.queue, message.queue_offset), NONE)
        if self._notes.has_names:
            found = max(found, accused.get(key_of_name(self._group, message.message_id), NONE))
        return found

    def _parts(self, messages: Sequence[Message]) -> Iterator[tuple[list[Message], EndsSoFar | None]]:
        plain: list[Message] = []
        for message in messages:
            if (ends := self._ends(message)).times < ALONE_FROM:
                plain.append(message)
                continue
            if plain:
                yield plain, None
                plain = []
            yield [message], ends
        if plain:
            yield plain, None

    def _failed(self, message: Message) -> Result | None:
        """Without being run: it has had this attempt."""
        ends = self._ends(message)
        is_kept = self._last is not None and message.attempt > self._last
        if ends.times < ENDS_MAX or message.attempt > ends.attempt or is_kept:
            return None
        reason = f"{ends.times} processes ended while its handler ran"
        return Result(RetryLater(reason=reason), "exception", error_type="ProcessEnded")

    async def _alone(self, message: Message, ends: EndsSoFar, run: Callable[[], Any]) -> Any:
        async with self._exits.turn:
            if ends.times >= ENDS_MAX:
                await asyncio.sleep(HEARD_SECONDS)
            return self._failed(message) or await run()

    def _alone_at_once(self, message: Message, ends: EndsSoFar, run: Callable[[], Any]) -> Any:
        with self._exits.thread_turn:
            if ends.times >= ENDS_MAX:
                threading.Event().wait(HEARD_SECONDS)
            return self._failed(message) or run()


def _is_last(found: list[object], results: Any, count: int, *, is_orderly: bool) -> bool:
    """Add the results of a part; whether nothing behind it may be run, for what failed comes again before that."""
    each = [results] if isinstance(results, Result) else results
    found += [None] * count if each is None else each
    return is_orderly and (each is not None and any(result is not None for result in each))
