"""Handling: the consumers of a simulated application. They record, take a while, fail now and then, and get stuck.

A handler's answer and its record say the same thing in two languages: the checkers believe the second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from framework.declare import Consumer, consumer, publishes, replies
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.outcome import Ack, BatchFailed, Commit, RetryLater, Rollback
from framework.testing.sim.streams import Stream
from tests.simulation.recorder import Recorder
from tests.simulation.ways import once, tags
from tests.simulation.ways.dialogue import Replying
from tests.simulation.ways.publishing import Receipts
from tests.simulation.ways.results import Results
from tests.simulation.workload import KEYS, GroupLoad, Workload

FORGET_RATE = 0.03
"""How often a handler with `explicit_ack` returns nothing."""
COMMIT_RATE, ROLL_BACK_RATE = 0.4, 0.03
ROLL_BACK_PAUSE_S = 0.1


class HandlerFailed(Exception):
    """A simulated handler's own failure."""


def handlers(
    workload: Workload,
    recorder: Recorder,
    chance: Stream,
    is_healed: Callable[[], bool],
    is_last: Callable[[Message], bool],
    is_broken: Callable[[str], bool],
) -> list[Consumer[..., Any]]:
    """The consumers of one application. `is_last`: nothing lies behind a message in its queue just now; `is_broken`:
    all of a group's handlers fail.
    """
    return [
        consumer(
            topic=topic, group=load.name, orderly=load.orderly, key=_key_of(load),
            commit="manual" if load.by_hand else "auto", batch=load.batch, linger=load.linger,
            broadcasting=load.broadcasting, once=load.once_s or None, **tags.filters(load),
        )(_handler(load, _Behaviour(load, recorder, chance, is_healed, is_last, is_broken)))
        for load in workload.groups
        for topic in load.topics(workload)
    ]  # fmt: skip


def _key_of(load: GroupLoad) -> Callable[[Message], object] | None:
    """By what the group orders, or tells duplicates."""
    if load.orderly == "key":
        return _key
    return once.key_of if load.once_by_key else None


def _key(message: Message) -> int:
    return message.queue_offset % KEYS


def _handler(load: GroupLoad, does: _Behaviour) -> Callable[..., Any]:
    """In the shape that the group's load asks for: plain ones ask for nothing but messages."""
    is_plain = load.progress in {"", "none", "auto"} and not load.timeout_s

    async def handle(message: Message) -> object:
        does.start((message,))
        await does.take_a_while()
        return does.end(message)

    async def handle_delivery(message: Message, delivery: Delivery) -> object:
        return await does.watched((message,), (delivery,), lambda: does.end(message))

    def handle_at_once(message: Message) -> object:
        does.start((message,))
        return does.end(message)

    def handle_delivery_at_once(message: Message, delivery: Delivery) -> object:
        does.start((message,), (delivery,))
        return does.end(message)

    async def handle_batch(messages: list[Message]) -> object:
        does.start(messages)
        await does.take_a_while()
        return does.end_batch(messages)

    async def handle_deliveries(messages: list[Message], deliveries: list[Delivery]) -> object:
        return await does.watched(messages, deliveries, lambda: does.end_batch(messages))

    def handle_batch_at_once(messages: list[Message]) -> object:
        does.start(messages)
        return does.end_batch(messages)

    def handle_deliveries_at_once(messages: list[Message], deliveries: list[Delivery]) -> object:
        does.start(messages, deliveries)
        return does.end_batch(messages)

    if load.batch:
        plain_batch = handle_batch if load.is_async else handle_batch_at_once
        return plain_batch if is_plain else handle_deliveries if load.is_async else handle_deliveries_at_once
    plain = handle if load.is_async else handle_at_once
    chosen = plain if is_plain else handle_delivery if load.is_async else handle_delivery_at_once
    if load.replies:
        return replies(chosen)
    return publishes(load.publishes)(chosen) if load.publishes else chosen


class _Behaviour:
    """How one group's handlers behave in one process."""

    def __init__(
        self,
        load: GroupLoad,
        recorder: Recorder,
        chance: Stream,
        is_healed: Callable[[], bool],
        is_last: Callable[[Message], bool],
        is_broken: Callable[[str], bool],
    ) -> None:
        self.load, self.recorder, self.chance = load, recorder, chance
        self.is_healed, self.is_last, self.is_broken = is_healed, is_last, is_broken
        self.receipts = Receipts(load.name, recorder, chance) if load.publishes else None
        self.replying = Replying(load.name, recorder) if load.replies else None
        self.results = Results(load, chance) if load.results and not load.by_hand else None

    def start(self, messages: Sequence[Message], deliveries: Sequence[Delivery] = ()) -> None:
        if self.load.once_s:
            for message in messages:
                once.note_key(self.recorder, self.load, message)
        epochs = [delivery.epoch for delivery in deliveries] or [None] * len(messages)
        for message, epoch in zip(messages, epochs, strict=True):
            self.recorder.started(self.load.name, message, epoch)

    async def take_a_while(self) -> None:
        load, chance = self.load, self.chance
        is_stuck = load.stuck_rate and chance.happens(load.stuck_rate) and not self.is_healed()
        # Healed, they are quick: what has piled up in front of slow ones would take minutes.
        pause_s = min(load.pauses_s) if self.is_healed() else chance.pick(load.pauses_s)
        await asyncio.sleep(load.stuck_s if is_stuck else pause_s)

    async def watched(
        self, messages: Sequence[Message], deliveries: Sequence[Delivery], end: Callable[[], object]
    ) -> object:
        self.start(messages, deliveries)
        try:
            await self.take_a_while()
        except asyncio.CancelledError:
            for message, delivery in zip(messages, deliveries, strict=True):
                if delivery.is_expired:
                    self._ended(message, "expired")
            raise
        return end()

    # Ends of one message

    def end(self, message: Message) -> object:
        if self._fails(message):
            self._ended(message, "failed")
            raise HandlerFailed(message.message_id)
        if self.load.by_hand:
            return self._end_by_hand((message,))
        if self.results is not None and self.results.are_given(is_healed=self.is_healed()):
            answer, meaning = self.results.one()
            self._ended(message, meaning)
            return answer
        if self.replying is not None:
            return self.replying.of(message)
        receipts = None if self.receipts is None else self.receipts.of(message)
        if receipts is None and self.load.explicit_ack:
            return self._end_explicitly((message,))
        self._ended(message, "ok")
        return receipts

    def _fails(self, message: Message) -> bool:
        if self.load.breaker and self.is_broken(self.load.name):
            return True
        # Poison goes by the message, so that it is poison at every attempt and in every process.
        if self.load.poison_rate and sum(message.message_id.encode()) % 1000 < self.load.poison_rate * 1000:
            return True
        return self.chance.happens(self.load.fail_rate)

    def _ended(self, message: Message, outcome: str) -> None:
        if self.load.is_witnessed:
            return
        self.recorder.finished(self.load.name, message, outcome)

    def _end_explicitly(self, messages: Sequence[Message]) -> object:
        is_forgotten = self.chance.happens(FORGET_RATE) and not self.is_healed()
        for message in messages:
            self._ended(message, "nothing" if is_forgotten else "ok")
        return None if is_forgotten else Ack()

    def _end_by_hand(self, messages: Sequence[Message]) -> object:
        """Where nothing follows a commit must: what is handled and never committed would be so for ever."""
        last, is_healed = messages[-1], self.is_healed()
        if not is_healed and self.chance.happens(ROLL_BACK_RATE):
            for message in messages:
                self._ended(message, "rolled back")
            self.recorder.rolled_back(self.load.name, last)
            return Rollback(ROLL_BACK_PAUSE_S)
        for message in messages:
            self._ended(message, "ok")
        if is_healed or self.chance.happens(COMMIT_RATE) or self.is_last(last):
            self.recorder.committed_by_hand(self.load.name, last)
            return Commit()
        return None

    # Ends of a batch

    def end_batch(self, messages: Sequence[Message]) -> object:
        """All well, or one of the ways to say that some of it is not."""
        if self.results is not None and self.results.are_given(is_healed=self.is_healed()):
            answer, meanings = self.results.of_batch(len(messages))
            for message, meaning in zip(messages, meanings, strict=True):
                self._ended(message, meaning)
            if isinstance(answer, Exception):
                raise answer
            return answer
        failed = [index for index, message in enumerate(messages) if self._fails(message)]
        if not failed:
            return self._batch_is_well(messages)
        is_broken = self.load.breaker and self.is_broken(self.load.name)
        manner = "all" if is_broken else self.chance.pick(self.load.answers)
        if self.load.explicit_ack:
            manner = "each"  # an index says nothing of success
        first = failed[0]
        for index, message in enumerate(messages):
            is_well = {"each": index not in failed, "all": False}.get(manner, index < first)
            self._ended(message, "ok" if is_well else "failed")
        match manner:
            case "each":
                well = Ack() if self.load.explicit_ack else None
                return [RetryLater() if index in failed else well for index in range(len(messages))]
            case "up to":
                return first - 1
            case "from":
                raise BatchFailed("simulated", at=first)
            case _:
                raise HandlerFailed(messages[first].message_id)

    def _batch_is_well(self, messages: Sequence[Message]) -> object:
        if self.load.by_hand:
            return self._end_by_hand(messages)
        if self.load.explicit_ack:
            return self._end_explicitly(messages)
        for message in messages:
            self._ended(message, "ok")
        return None
