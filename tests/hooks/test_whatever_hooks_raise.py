"""Whatever a hook raises is contained, counted and named: every hook against every exception.

Only what was done to us passes: a signal's handler, the cancellation of our own task.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from framework import Message, consumer
from framework.client.outgoing import prepare
from framework.client.producing.told import SendHooks
from framework.core.budget import Budget
from framework.core.chunk import Chunk
from framework.core.expiry import Slot
from framework.core.window import Window
from framework.hooks import ChunkSummary, hookimpl, specs
from framework.hooks.calls import Calls
from framework.hooks.contexts import Around, run_sync
from framework.hooks.host import PluginHost
from framework.model.delivery import Delivery
from framework.model.outcome import Ack
from framework.model.queue import MessageQueue
from framework.services.call.deliver import DeliveryHooks, call_for
from framework.services.pool.run import RUNNING
from framework.testing import Harness
from tests.hooks.raised import RAISED, Panic, whatever
from tests.services.parts import PLENTY, LoopClock, play

DELIVERY = Delivery("billing", Message("orders", b"x"), 0.0)
QUEUE = MessageQueue("orders", "broker-a", 0)
Told = Callable[[Calls], object]


async def entered(around: Around, *, is_async: bool) -> object:
    """As around a handler's call."""
    context = around.begin(DELIVERY)
    return None if context is None else await around.enter(context, is_async)


TOLD: dict[str, Told] = {
    "app_started": lambda calls: calls.app_started(object()),
    "app_stopping": lambda calls: calls.app_stopping(object()),
    "before_consume": lambda calls: [before(DELIVERY) for before in calls.before],
    "around_consume": lambda calls: [run_sync(entered(around, is_async=False)) for around in calls.around],
    "after_consume": lambda calls: [after(DELIVERY, Ack(), 0.0, "success") for after in calls.after],
    "before_send": lambda calls: SendHooks(calls).begun(DELIVERY.message),
    "after_send": lambda calls: SendHooks(calls).ended(prepare(DELIVERY.message, "ID", 0), (), None, 0.001),
    "after_chunk": lambda calls: _heard(calls.listeners.after_chunk)(ChunkSummary("billing", QUEUE, 1, 0.1, 1)),
    "delivery_stuck": lambda calls: _heard(calls.listeners.delivery_stuck)(DELIVERY, 17),
    "assignment_changed": lambda calls: _heard(calls.listeners.assignment_changed)("billing", [QUEUE], []),
    "offsets_committed": lambda calls: _heard(calls.listeners.offsets_committed)("billing", {QUEUE: 7}),
    "figures": lambda calls: calls.figures(),
    "queue_held": lambda calls: _heard(calls.listeners.queue_held)("billing", QUEUE, "count"),
}
"""How each hook is told, but for those that are asked at load."""

REGISTERING = tuple(name for name in specs.NAMES if name.startswith("register_"))


def _heard(tell: Callable[..., None] | None) -> Callable[..., None]:
    assert tell is not None
    return tell


def plugin_with(hook: str, act: Callable[..., object]) -> type:
    """A plugin whose one hook does this."""

    def function(self: object) -> object:
        return act()

    function.__name__ = hook
    marked: Any = hookimpl(function)
    if hook == "register_settings":
        marked = staticmethod(hookimpl(lambda: act()))  # noqa: PLW0108 - a mark is the function's own
    return type("Acme", (), {hook: marked})


def host_of(plugin: object, *, tolerant: bool = False) -> PluginHost:
    return PluginHost(objects={"acme": plugin}, discover=list, tolerant=tolerant)


def test_every_hook_is_in_this_table() -> None:
    """A new hook arrives with its line above."""
    assert {*specs.NAMES} == {*TOLD, *REGISTERING}


@whatever
@pytest.mark.parametrize("hook", TOLD)
def test_what_a_hook_raises_is_contained_counted_and_named(hook: str, raises: Callable[..., Any]) -> None:
    calls = host_of(plugin_with(hook, raises)).calls

    with capture_logs() as logs:
        TOLD[hook](calls)
        calls.looks = 0  # and where the hooks' time is taken together
        TOLD[hook](calls)

    assert {"acme": 2} == calls.failures
    assert [("hook failed", "acme", hook)] == [(line["event"], line["plugin"], line["hook"]) for line in logs]


@whatever
@pytest.mark.parametrize("hook", REGISTERING)
def test_what_a_hook_raises_at_load_is_a_mistake_with_its_plugin_s_name(hook: str, raises: Callable[..., Any]) -> None:
    (mistake,) = host_of(plugin_with(hook, raises), tolerant=True).mistakes

    assert "plugin 'acme'" in str(mistake)
    assert any(word in str(mistake) for word in (hook, "cannot be loaded"))


@whatever
@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_context_raises_is_contained_entering_and_leaving(*, is_async: bool, raises: Callable[..., Any]) -> None:
    class Context:
        entered = 0

        def __enter__(self) -> None:
            Context.entered += 1
            if Context.entered == 1:
                raises()

        def __exit__(self, *_: object) -> None:
            raises()

    class AsyncContext:
        async def __aenter__(self) -> None:
            Context().__enter__()

        async def __aexit__(self, *_: object) -> None:
            raises()

    kind = AsyncContext if is_async else Context
    calls = host_of(plugin_with("around_consume", kind)).calls
    (around,) = calls.around

    async def story() -> None:
        for error in (None, None, ValueError("the handler's"), asyncio.CancelledError()):
            entering = entered(around, is_async=is_async)
            context = await entering if is_async else run_sync(entering)
            if context is not None:
                leaving = around.leave(context, error, is_async=is_async)
                assert None is (await leaving if is_async else run_sync(leaving))

    play(story)
    assert {"acme": 4} == calls.failures


@whatever
def test_around_a_call_too(raises: Callable[..., Any]) -> None:
    handled: list[bytes] = []

    @consumer("orders", "billing")
    async def bill(order: Message) -> None:
        handled.append(order.body)

    class Acme:
        @hookimpl
        def before_consume(self) -> None:
            raises()

        @hookimpl
        def after_consume(self) -> None:
            raises()

    calls = host_of(Acme()).calls
    calls.looks = 0
    call = call_for(bill.spec, DeliveryHooks(calls.before, calls.after, calls.around), LoopClock())

    async def story() -> object:
        slot, window = Slot(), Window(0, Budget(PLENTY))
        slot.chunk = Chunk([Message("orders", b"x", queue=QUEUE)], 0, 1, 1, window)
        RUNNING.set(slot)
        result = await call(slot.chunk.messages[0])
        RUNNING.set(None)
        return result

    assert play(story) is None
    assert [b"x"] == handled
    assert {"acme": 2} == calls.failures


class Everything:
    """Raises whenever it is told anything."""

    def __init__(self, raises: Callable[..., Any]) -> None:
        for hook in TOLD:
            setattr(self, hook, plugin_with(hook, raises).__dict__[hook].__get__(self))


@consumer("orders", "billing")
async def awaited(order: Message) -> None:
    await asyncio.sleep(0.01)


@consumer("orders", "billing")
def threaded(order: Message) -> None: ...


@consumer("orders", "billing", orderly=True)
async def orderly(order: Message) -> None: ...


@consumer("orders", "billing", batch=4)
async def batched(orders: list[Message]) -> None: ...


@pytest.mark.parametrize("kind", ["BaseException", "exit 3", "KeyboardInterrupt", "CancelledError", "GeneratorExit"])
@pytest.mark.parametrize("handler", [awaited, threaded, orderly, batched], ids=lambda each: each.spec.name)
def test_an_application_with_such_a_plugin_handles_each_message_once_and_stops_as_ever(handler: Any, kind: str) -> None:
    with Harness(handler, plugins=host_of(Everything(RAISED[kind]))) as desk:
        for number in range(12):
            desk.send("orders", str(number))
        events = desk.settle()
        desk.sleep("5s")
        failures = desk.snapshot().hook_failures

    assert 12 * ["handled"] == [event["event"] for event in events]
    assert failures["acme"] > 12
    assert {"acme"} == {line["plugin"] for line in desk.logs if line["event"] == "hook failed"}


# What passes


def test_a_signal_s_interrupt_passes_through() -> None:
    calls = host_of(plugin_with("after_chunk", lambda: signal.raise_signal(signal.SIGINT))).calls
    # A shell without job control has what it starts in the background ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            TOLD["after_chunk"](calls)
    finally:
        signal.signal(signal.SIGINT, before)
    assert {} == calls.failures


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(0), Panic()])
def test_so_does_whatever_the_handler_of_a_signal_raises(error: BaseException) -> None:
    """Of who embeds an application: `signal.signal(SIGTERM, lambda *_: sys.exit())`."""

    def handler(*_: object) -> None:
        raise error

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        calls = host_of(plugin_with("after_chunk", lambda: signal.raise_signal(signal.SIGUSR1))).calls
        with pytest.raises(type(error)):
            TOLD["after_chunk"](calls)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert {} == calls.failures


def test_so_do_our_own_cancellation_and_the_closing_of_our_coroutine() -> None:
    class Context:
        async def __aenter__(self) -> None:
            await asyncio.Event().wait()

        async def __aexit__(self, *_: object) -> None: ...

    calls = host_of(plugin_with("around_consume", Context)).calls
    (around,) = calls.around

    async def story() -> None:
        task = asyncio.get_running_loop().create_task(entered(around, is_async=True))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        entering = entered(around, is_async=True)
        entering.send(None)
        entering.close()

    play(story)
    assert {} == calls.failures


def test_a_wait_that_was_cancelled_from_within_is_the_plugin_s_failure() -> None:
    class Context:
        async def __aenter__(self) -> None:
            gone = asyncio.get_running_loop().create_future()
            gone.cancel()
            await gone

        async def __aexit__(self, *_: object) -> None: ...

    calls = host_of(plugin_with("around_consume", Context)).calls
    (around,) = calls.around

    assert play(lambda: entered(around, is_async=True)) is None
    assert {"acme": 1} == calls.failures
