"""Hooks around an async handler mean the same timed one by one and all together: one story, both ways."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from framework import Retry, consumer
from framework.core.chunk import Chunk
from framework.hooks import Skip, hookimpl
from framework.hooks.host import PluginHost
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.outcome import DeadLetter, Kind, Outcome, RetryLater
from framework.model.queue import MessageQueue
from framework.services.call.deliver import DeliveryHooks, Rules, call_for
from framework.services.call.undecodable import Undecodable
from framework.services.pool.tasks import WorkerPool
from tests.services.parts import LoopClock, play


class Order(BaseModel):
    number: str


class Plugin:
    """Writes down what it is told, and answers what its message asks for: "plugin does" in the body's text."""

    def __init__(self, name: str, notes: list[object]) -> None:
        self.name, self.notes = name, notes

    def act(self, delivery: Delivery, when: str) -> Any:
        text = delivery.message.body.decode()
        if f"{self.name} fails {when}" in text:
            raise ValueError(f"{self.name} {when}")
        return next((answer for wish, answer in ANSWERS.items() if f"{self.name} {wish}" in text), None)

    @hookimpl
    def before_consume(self, delivery: Delivery) -> Any:
        self.notes.append((self.name, "before", delivery.group, delivery.message.queue_offset, delivery.epoch))
        return self.act(delivery, "before")

    @hookimpl
    def after_consume(self, delivery: Delivery, outcome: Outcome, elapsed_ms: float, kind: Kind) -> None:
        self.notes.append((self.name, "after", repr(outcome), round(elapsed_ms), kind, delivery.is_expired))
        self.act(delivery, "after")


class Short(Plugin):
    """The same with fewer arguments."""

    @hookimpl
    def after_consume(self, delivery: Delivery, outcome: Outcome) -> None:  # type: ignore[override]
        self.notes.append((self.name, "after", repr(outcome)))
        self.act(delivery, "after")


class Middling(Plugin):
    @hookimpl
    def after_consume(  # type: ignore[override]
        self, delivery: Delivery, outcome: Outcome, elapsed_ms: float
    ) -> None:
        self.notes.append((self.name, "after", repr(outcome), round(elapsed_ms)))
        self.act(delivery, "after")


ANSWERS: dict[str, object] = {"skips": Skip("not ours"), "defers": RetryLater("10s"), "babbles": "what?"}


class Run:
    """Notes ends that are not plain success."""

    group_name, queue, pulled_at = "billing", MessageQueue("orders", "broker-a", 3), 0.0

    def __init__(self, call: Callable[[Message], Any]) -> None:
        self.call, self.ended = call, 0
        self.uncommons: list[tuple[int, str]] = []

    def left(self, chunk: Chunk, ended: int) -> None:
        self.ended += ended

    def late(self, chunk: Chunk, count: int) -> None:
        raise AssertionError("nothing expires here")

    def not_success(self, chunk: Chunk, index: int, result: object, started: float) -> None:
        outcome = getattr(result, "outcome", result)
        self.uncommons.append((index, repr(outcome)))
        chunk.finish(index)


BODIES = [
    b'{"number": "7"}',
    b'{"number": "a fails before"}',
    b'{"number": "b fails after"}',
    b'{"number": "b skips"}',
    b'{"number": "a defers"}',
    b'{"number": "c babbles"}',
    b'{"number": "c fails before, b fails before, a skips, a fails after, c fails after"}',
    b"{not json",
    b'{"number": "handler fails"}',
    b'{"number": "handler waits"}',
    b'{"number": "handler wishes"}',
    b'{"number": "8"}',
]


async def do(order: Order | None, message: Message) -> object:
    text = message.body.decode()
    if "handler fails" in text:
        raise ConnectionError("no such order")
    if "handler waits" in text:
        await asyncio.sleep(2)
    return DeadLetter("poison") if "handler wishes" in text else None


async def typed(order: Order, message: Message) -> object:
    return await do(order, message)


async def alone(order: Order) -> object:
    return await do(order, Message("orders", order.model_dump_json()))


async def with_delivery(order: Order, delivery: Delivery) -> object:
    assert delivery.group == "billing"
    return await do(order, delivery.message)


async def plain(message: Message) -> object:
    return await do(None, message)


async def by_name(message: Message, *, order: Order) -> object:
    return await do(order, message)


def told(function: Callable[..., Any], *, closely: bool, retry: Retry | None, explicit: bool = False) -> Any:
    """All that can be seen from outside of one chunk."""
    notes: list[object] = []
    host = PluginHost(
        objects={"a": Plugin("a", notes), "b": Short("b", notes), "c": Middling("c", notes)}, discover=list
    )
    host.calls.looks = 1_000 if closely else 0
    undecodable = Undecodable("billing", "dead_letter", 0)

    async def story() -> object:
        clock = LoopClock()
        host.calls.now = clock.monotonic
        spec = replace(consumer("orders", "billing")(function).spec, retry=retry)
        hooks = DeliveryHooks(host.calls.before, host.calls.after)
        call = call_for(spec, hooks, clock, Rules(undecodable, explicit_ack=explicit))
        chunk = Chunk([Message("orders", body, queue_offset=at) for at, body in enumerate(BODIES)], 0, len(BODIES), 9)
        chunk.run = run = Run(call)
        pool = WorkerPool(1, clock)
        (slot,) = pool.slots
        pool.offer(chunk)
        worker = asyncio.get_running_loop().create_task(pool.work(slot))
        while not chunk.is_finished:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(1)
        worker.cancel()
        return run.uncommons, run.ended, notes, host.calls.failures, host.calls.slow, undecodable.row

    with capture_logs() as lines:
        return play(story), [(line["event"], line.get("plugin"), line.get("hook")) for line in lines]


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("retry", [None, Retry(on=(OSError,), max=3, delays=["1s"])], ids=["bare", "retry"])
@pytest.mark.parametrize("function", [typed, alone, with_delivery, plain, by_name])
def test_both_ways_mean_the_same(function: Callable[..., Any], retry: Retry | None, *, explicit: bool) -> None:
    here = told(function, closely=True, retry=retry, explicit=explicit)

    assert told(function, closely=False, retry=retry, explicit=explicit) == here
    assert "handler failed" not in repr(here)


def test_failures_are_contained_and_named_and_do_not_stop_the_others() -> None:
    (uncommons, ended, notes, failures, *_), lines = told(typed, closely=False, retry=None)

    assert {"a": 2, "b": 2, "c": 3} == failures
    assert ("hook failed", "b", "after_consume") in lines
    assert (3, "Drop(by='b', reason='not ours')") in uncommons
    assert [0, 1, 2, 5, 9, 11] == sorted({*range(len(BODIES))} - {index for index, _ in uncommons})
    assert ended == 6
    assert ["c", "b", "a", "a", "b", "c"] == [note[0] for note in notes[:6]]


def test_a_slow_hook_is_looked_at_closely_from_then_on() -> None:
    clock_at = [0.0]

    class Slow:
        @hookimpl
        def after_consume(self, delivery: Delivery, outcome: Outcome) -> None:
            clock_at[0] += 0.2

    host = PluginHost(objects={"slow": Slow()}, discover=list)
    host.calls.now = lambda: clock_at[0]
    host.calls.looks = 0

    async def story() -> None:
        spec = consumer("orders", "billing")(plain).spec
        clock = LoopClock()
        clock.monotonic = host.calls.now  # type: ignore[method-assign]
        chunk = Chunk([Message("orders", b"", queue_offset=at) for at in range(3)], 0, 3, 9)
        chunk.run = Run(call_for(spec, DeliveryHooks(host.calls.before, host.calls.after), clock))
        pool = WorkerPool(1, clock)
        pool.offer(chunk)
        worker = asyncio.get_running_loop().create_task(pool.work(pool.slots[0]))
        while not chunk.is_finished:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(1)
        worker.cancel()

    play(story)
    assert {"slow": 2} == host.calls.slow  # the first one was noticed, the others were named
    assert host.calls.looks > 100
