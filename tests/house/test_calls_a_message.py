"""What a message costs on the pool's common path, counted in calls: its handler and a look at the clock, no more.

A Python call is 0.05 us and more, and what makes one a message soon makes several: with an object and a settle each,
consuming took 5.2 CPU-seconds a million messages, with chunks 1.95. Seconds differ between machines; calls do not.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import FrameType
from typing import Any

from pydantic import BaseModel

from framework import Retry, consumer
from framework.core.chunk import Chunk
from framework.hooks import hookimpl
from framework.hooks.host import PluginHost
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.outcome import Outcome
from framework.model.queue import MessageQueue
from framework.net.real_clock import RealClock
from framework.services.call.deliver import DeliveryHooks, call_for
from framework.services.pool.tasks import WorkerPool


class Run:
    """The least that a chunk can be run with."""

    group_name, queue, pulled_at = "billing", MessageQueue("orders", "broker-a", 3), 0.0

    def __init__(self, call: Callable[[Message], Awaitable[object]]) -> None:
        self.call = call

    def left(self, chunk: Chunk, ended: int) -> None:
        assert chunk.low == chunk.count == ended

    def late(self, chunk: Chunk, count: int) -> None:
        raise AssertionError("nothing expires here")

    def not_success(self, chunk: Chunk, index: int, result: object, started: float) -> None:
        raise AssertionError("every message is plain success here")


async def do_nothing(_: Message) -> None:
    return


def calls_for(
    count: int,
    *,
    chunks: int = 1,
    ended_ahead: bool = False,
    call: Callable[[Message], Awaitable[object]] = do_nothing,
) -> Counter[str]:
    """The calls of one worker for its chunks. The handler never suspends, so one step of its coroutine does it all."""
    pool = WorkerPool(1, RealClock())
    pool._breath.at = float("inf")
    for _ in range(chunks):
        messages = [Message("orders", b'{"number": "7"}', queue_offset=offset) for offset in range(count)]
        chunk = Chunk(messages, 0, count, 100)
        chunk.run = Run(call)
        if ended_ahead:
            chunk.ahead = 1 << (count + 1)  # as if another worker had ended a message far ahead
        pool.offer(chunk)
    seen: Counter[str] = Counter()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            seen[frame.f_code.co_qualname] += 1
        elif event == "c_call":
            seen[f"C {argument.__qualname__}"] += 1

    async def work() -> None:
        worker = pool.work(pool.slots[0])
        before = sys.getprofile()
        gc.disable()  # what the garbage of earlier tests calls as it goes is not the worker's
        sys.setprofile(note)
        try:
            worker.send(None)
        finally:
            sys.setprofile(before)
            gc.enable()
            worker.close()

    asyncio.run(work())
    assert chunk.is_finished
    seen.pop("C setprofile", None)
    return seen


def calls_a_message(
    *, ended_ahead: bool = False, call: Callable[[Message], Awaitable[object]] = do_nothing
) -> dict[str, float]:
    """What 32 more messages in a chunk add: the chunk's own calls fall out."""
    more = calls_for(64, ended_ahead=ended_ahead, call=call)
    more.subtract(calls_for(32, ended_ahead=ended_ahead, call=call))
    return {name: calls / 32 for name, calls in more.items() if calls}


def test_a_message_in_order_costs_its_handler_and_one_look_at_the_clock() -> None:
    """No Python call beside the handler's own. The clock is C's: expiry needs to know since when a message runs."""
    assert {"do_nothing": 1, "C monotonic": 1} == calls_a_message()


def test_a_message_out_of_order_costs_one_call_more() -> None:
    """A bit in the chunk, set by the chunk's own method."""
    assert {"do_nothing": 1, "C monotonic": 1, "Chunk.finish": 1} == calls_a_message(ended_ahead=True)


def test_a_chunk_among_others_costs_two_calls() -> None:
    """It is at hand, and it is left."""
    more = calls_for(32, chunks=9)
    more.subtract(calls_for(32))
    python = {name: calls / 8 for name, calls in more.items() if calls and not name.startswith("C ")}
    assert {"do_nothing": 32, "WorkerPool._at_hand": 1, "Run.left": 1} == python


def test_a_chunk_costs_a_handful_of_calls() -> None:
    """The worker's own frame, the next chunk, leaving it, and waiting for another: seven, and eight of C's beside."""
    calls = calls_for(32)
    calls.subtract({"do_nothing": 32, "C monotonic": 32})
    for once_a_worker in ("current_task", "C current_task", "C dict.get", "C ContextVar.set"):
        calls.pop(once_a_worker, None)
    python = sum(count for name, count in calls.items() if not name.startswith("C "))

    assert python <= 7
    assert sum(calls.values()) - python <= 8


class Order(BaseModel):
    number: str


class Listener:
    """A plugin with both hooks, as most are written: with some of what they may be told."""

    @hookimpl
    def before_consume(self, delivery: Delivery) -> None: ...

    @hookimpl
    def after_consume(self, delivery: Delivery, outcome: Outcome, elapsed_ms: float) -> None: ...


def watched(*, listeners: int, retry: Retry | None = None) -> Callable[[Message], Awaitable[object]]:
    """A typed handler as an application puts it together."""

    async def bill(order: Order, message: Message) -> None:
        assert order.number

    spec = replace(consumer("orders", "billing")(bill).spec, retry=retry)
    host = PluginHost(objects={f"p{number}": Listener() for number in range(listeners)}, discover=list)
    host.calls.now = RealClock().monotonic
    host.calls.looks = 0  # as after its first calls
    return call_for(spec, DeliveryHooks(host.calls.before, host.calls.after), RealClock())


def python_calls(call: Callable[[Message], Awaitable[object]]) -> float:
    found = calls_a_message(call=call)
    return sum(count for name, count in found.items() if not name.startswith("C "))


def test_a_typed_handler_costs_the_binding_and_the_body_and_no_coroutine_more() -> None:
    """Handing over, the body out of its record, the handler; decoding is C's."""
    assert python_calls(watched(listeners=0)) <= 3


def test_declared_retries_cost_one_call_where_nothing_fails() -> None:
    assert python_calls(watched(listeners=0, retry=Retry(max=3))) - python_calls(watched(listeners=0)) <= 1


def test_hooks_cost_themselves_and_three_calls_however_many_they_are() -> None:
    """The call around the handler, and one for all hooks of a kind. Declared retries ride along."""
    one, three = python_calls(watched(listeners=1)), python_calls(watched(listeners=3))

    assert three - one <= 2 * 2
    assert one - python_calls(watched(listeners=0)) <= 2 + 3
    assert three == python_calls(watched(listeners=3, retry=Retry(max=3)))


def test_the_clock_is_looked_at_once_for_all_hooks() -> None:
    """Beside the two looks that tell how long the handler took."""
    clock = {number: calls_a_message(call=watched(listeners=number))["C monotonic"] for number in (1, 3)}

    assert {1: 3, 3: 3} == clock
