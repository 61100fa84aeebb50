"""What stands between a message and its handler: nothing, unless somebody asks for more."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from framework.declare import ConsumerSpec
from framework.declare.arguments import Argument
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.outcome import Ack, Drop, Outcome, RetryLater
from framework.services.call.deliver import After, DeliveryHooks, call_for
from tests.services.parts import LoopClock, messages_from, play

(MESSAGE,) = messages_from(7, 1, attempt=3)


def spec_of(function: Callable[..., object], *, is_async: bool) -> ConsumerSpec:
    return ConsumerSpec(
        topic="orders", group="billing", tags="*", orderly=False, function=function, name="handler", place="here:1",
        is_async=is_async,
    )  # fmt: skip


both = pytest.mark.parametrize("is_async", [False, True])


def run(
    act: Callable[[Any], object], hooks: DeliveryHooks, *, is_async: bool, wants_delivery: bool = False
) -> tuple[object, list[object]]:
    """What the call gave or raised for one message, and what the handler was given."""
    given: list[object] = []

    def function(what: object) -> object:
        given.append(what)
        return act(what)

    async def coroutine(what: object) -> object:
        await asyncio.sleep(1)
        return function(what)

    async def story() -> object:
        spec = spec_of(coroutine if is_async else function, is_async=is_async)
        call = call_for(
            replace(spec, arguments=(Argument("it", "delivery" if wants_delivery else "message"),)), hooks, LoopClock()
        )
        try:
            result = call(MESSAGE)
            assert is_async is inspect.isawaitable(result)
            return await result if is_async else result
        except ValueError as error:
            return f"raised {error}"

    return play(story), given


def fail(_: object) -> None:
    raise ValueError("no such order")


@both
def test_with_nobody_asking_it_is_the_users_own_function(*, is_async: bool) -> None:
    def function(message: Message) -> None:
        return

    assert function is call_for(spec_of(function, is_async=is_async), DeliveryHooks(), LoopClock())
    assert not DeliveryHooks()


@both
def test_a_handler_that_wants_the_delivery_gets_it(*, is_async: bool) -> None:
    result, (given,) = run(lambda _: "result", DeliveryHooks(), is_async=is_async, wants_delivery=True)

    assert "result" == result
    assert isinstance(given, Delivery)
    assert ("billing", MESSAGE, 3) == (given.group, given.message, given.attempt)


@both
def test_a_handlers_error_passes_where_nobody_listens(*, is_async: bool) -> None:
    assert "raised no such order" == run(fail, DeliveryHooks(), is_async=is_async, wants_delivery=True)[0]
    assert "ValueError('no such order')" == repr(
        run(fail, DeliveryHooks(before=[lambda _: None]), is_async=is_async)[0]
    )


@both
def test_hooks_before_are_asked_in_order_and_the_first_verdict_stands(*, is_async: bool) -> None:
    asked: list[str] = []

    def before(name: str, verdict: Drop | RetryLater | None) -> Callable[[Delivery], Drop | RetryLater | None]:
        def hook(delivery: Delivery) -> Drop | RetryLater | None:
            assert MESSAGE is delivery.message
            asked.append(name)
            return verdict

        return hook

    hooks = DeliveryHooks(before=[before("a", None), before("b", Drop("b")), before("c", RetryLater())])
    assert (Drop("b"), []) == run(lambda _: None, hooks, is_async=is_async)
    assert ["a", "b"] == asked


@both
@pytest.mark.parametrize(
    ("expected_result", "expected_outcome", "act"),
    [
        ("None", Ack(), lambda _: None),
        ("True", Ack(), lambda _: True),
        ("RetryLater(delay='30s', reason='')", RetryLater("30s"), lambda _: RetryLater("30s")),
        ("ValueError('no such order')", RetryLater(reason="ValueError: no such order"), fail),
    ],
)
def test_hooks_after_are_told_the_outcome_innermost_first(
    expected_result: str, expected_outcome: Outcome, act: Callable[[Any], object], *, is_async: bool
) -> None:
    heard: list[tuple[str, Outcome, int]] = []

    def after(name: str) -> After:
        return lambda delivery, outcome, elapsed_ms, _: heard.append((name, outcome, round(elapsed_ms)))

    result, _ = run(act, DeliveryHooks(after=[after("outer"), after("inner")]), is_async=is_async)
    elapsed_ms = 1_000 if is_async else 0
    assert expected_result == repr(result)
    assert [("inner", expected_outcome, elapsed_ms), ("outer", expected_outcome, elapsed_ms)] == heard


@both
def test_hooks_after_hear_of_a_verdict_too(*, is_async: bool) -> None:
    heard: list[Outcome] = []
    hooks = DeliveryHooks(before=[lambda _: Drop("a")], after=[lambda _, outcome, *__: heard.append(outcome)])

    assert (Drop("a"), []) == run(lambda _: None, hooks, is_async=is_async)
    assert [Drop("a")] == heard


def test_cancellation_passes_and_nobody_is_told_an_outcome() -> None:
    heard: list[Outcome] = []

    async def forever(_: Message) -> None:
        await asyncio.sleep(1_000)

    async def story() -> bool:
        hooks = DeliveryHooks(after=[lambda _, outcome, *__: heard.append(outcome)])
        task = asyncio.get_running_loop().create_task(
            call_for(spec_of(forever, is_async=True), hooks, LoopClock())(MESSAGE)
        )
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.sleep(1)
        return task.cancelled()

    assert play(story)
    assert [] == heard
