"""What plugins hold around a batch: each message has a context of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from framework.hooks import TryAgain, hookimpl
from framework.hooks.host import PluginHost
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.outcome import RetryLater
from framework.services.call.batch_calls import batching_for
from framework.services.call.deliver import Rules
from tests.hooks.around_scene import MESSAGES, Noting, both, hooks_of, host_of, spec
from tests.services.parts import LoopClock, play


def run_batch(
    host: PluginHost, act: Callable[[list[Message]], object], *, is_async: bool, orderly: bool = False
) -> tuple[list[object], list[int]]:
    given: list[int] = []

    def function(messages: list[Message]) -> object:
        given.extend(message.queue_offset for message in messages)
        return act(messages)

    async def coroutine(messages: list[Message]) -> object:
        return function(messages)

    async def story() -> list[object]:
        shape = spec(coroutine if is_async else function, is_async=is_async, batch=4, orderly=orderly)
        call = batching_for(shape, hooks_of(host), LoopClock(), Rules()).call
        result = call(MESSAGES)
        return await result if is_async else result  # type: ignore[no-any-return]  # of either kind

    return play(story), given


@both
def test_of_a_batch_each_message_s_context_is_held_and_left_with_its_own_end(*, is_async: bool) -> None:
    notes: list[str] = []
    host = host_of(one=Noting("one", notes))

    results, given = run_batch(host, lambda _: [None, RetryLater("10s"), None, None], is_async=is_async)

    assert [None, RetryLater("10s"), None, None] == results
    assert [7, 8, 9, 10] == given
    assert [f"one enters {offset}" for offset in given] == notes[:4]
    assert ["one leaves", "one leaves", "one leaves NotDone", "one leaves"] == notes[4:]


class OnlyEven:
    """Has odd offsets come again, entering or leaving."""

    def __init__(self, *, entering: bool) -> None:
        self._entering = entering

    @hookimpl
    @contextmanager
    def around_consume(self, delivery: Delivery) -> Iterator[None]:
        is_odd = delivery.message.queue_offset % 2 == 1
        if is_odd and self._entering:
            raise TryAgain("odd")
        yield
        if is_odd:
            raise TryAgain("odd")


AGAIN = RetryLater(None, "one: odd")


@both
@pytest.mark.parametrize(("entering", "expected"), [(True, [8, 10]), (False, [7, 8, 9, 10])])
def test_a_message_of_a_batch_comes_again_alone(entering: bool, expected: list[int], *, is_async: bool) -> None:
    host = host_of(one=OnlyEven(entering=entering))

    results, given = run_batch(host, lambda _: None, is_async=is_async)

    assert [AGAIN, None, AGAIN, None] == results
    assert expected == given


@both
def test_in_order_nothing_starts_behind_a_message_that_comes_again(*, is_async: bool) -> None:
    class Ninth:
        @hookimpl
        @contextmanager
        def around_consume(self, delivery: Delivery) -> Iterator[None]:
            if delivery.message.queue_offset == 9:
                raise TryAgain("odd")
            yield

    results, given = run_batch(host_of(one=Ninth()), lambda _: None, is_async=is_async, orderly=True)

    assert [None, None, AGAIN] == results
    assert [7, 8] == given


@both
def test_a_message_of_a_batch_that_comes_again_leaves_the_contexts_that_were_entered_for_it(*, is_async: bool) -> None:
    notes: list[str] = []

    class Outer(Noting):
        @hookimpl(tryfirst=True)
        @contextmanager
        def around_consume(self, delivery: Delivery) -> Iterator[None]:
            with super().around_consume(delivery):
                yield

    host = host_of(one=OnlyEven(entering=True), outer=Outer("outer", notes))
    run_batch(host, lambda _: None, is_async=is_async)

    assert ["outer enters 7", "outer leaves NotDone", "outer enters 8", "outer enters 9"] == notes[:4]
    assert ["outer leaves NotDone", "outer enters 10", "outer leaves", "outer leaves"] == notes[4:]
