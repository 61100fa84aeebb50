"""What plugins hold around a handler's run: entered and left in order, told how it ended, and contained."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from framework.errors import ConfigurationError
from framework.hooks import NotDone, TryAgain, hookimpl
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.outcome import Ack, DeadLetter, RetryLater, Rollback
from framework.services.call.deliver import Rules, call_for
from tests.hooks.around_scene import MESSAGES, WHO, Async, Noting, both, fail, hooks_of, host_of, run, spec
from tests.services.parts import LoopClock, play


def test_where_nobody_implements_it_the_call_is_the_users_own_function() -> None:
    def function(message: Message) -> None:
        return

    assert () == host_of().calls.around
    assert function is call_for(spec(function, is_async=False), hooks_of(host_of()), LoopClock())


@both
def test_around_consume_is_entered_in_calling_order_and_left_in_the_reverse(*, is_async: bool) -> None:
    notes: list[str] = []
    host = host_of(one=Noting("one", notes), two=Noting("two", notes))
    first, second = [each._plugin for each in host.calls.around]

    result, given = run(host, lambda _: notes.append("handler"), is_async=is_async)

    assert (None, 1) == (result, len(given))
    assert [f"{first} enters 7", f"{second} enters 7", "handler", f"{second} leaves", f"{first} leaves"] == notes


@both
@pytest.mark.parametrize(
    ("act", "left_with"),
    [
        (lambda _: None, ""),
        (lambda _: "anything", ""),
        (lambda _: Ack(), ""),
        (fail, " ValueError"),
        (lambda _: RetryLater("10s"), " NotDone"),
        (lambda _: DeadLetter("bad"), " NotDone"),
        (lambda _: Rollback(), " NotDone"),
    ],
)
def test_it_is_left_with_how_the_handler_ended(
    act: Callable[[Message], object], left_with: str, *, is_async: bool
) -> None:
    notes: list[str] = []

    run(host_of(one=Noting("one", notes)), act, is_async=is_async)

    assert f"one leaves{left_with}" == notes[-1]


@both
def test_a_success_that_explicit_ack_does_not_take_is_none(*, is_async: bool) -> None:
    notes: list[str] = []
    rules = Rules(explicit_ack=True)

    run(host_of(one=Noting("one", notes)), lambda _: None, is_async=is_async, rules=rules)
    run(host_of(one=Noting("one", notes)), lambda _: Ack(), is_async=is_async, rules=rules)

    assert ["one leaves NotDone", "one leaves"] == notes[1::2]


@both
def test_what_it_swallows_stays_a_failure(*, is_async: bool) -> None:
    host = host_of(one=Noting("one", [], swallows=ValueError()))

    assert "ValueError('no such order')" == repr(run(host, fail, is_async=is_async)[0])
    assert RetryLater("10s") == run(host, lambda _: RetryLater("10s"), is_async=is_async)[0]
    assert {} == host.calls.failures


@both
@pytest.mark.parametrize("when", ["entering", "leaving"])
def test_what_it_raises_is_counted_and_the_message_goes_on(when: str, *, is_async: bool) -> None:
    notes: list[str] = []
    host = host_of(bad=Noting("bad", [], **{when: OSError("disk full")}), good=Noting("good", notes))

    with capture_logs() as logs:
        result, given = run(host, lambda _: None, is_async=is_async)

    assert (None, 1) == (result, len(given))
    assert ["good enters 7", "good leaves"] == notes
    assert {"bad": 1} == host.calls.failures
    assert [("hook failed", "bad", "around_consume")] == [
        (each["event"], each["plugin"], each["hook"]) for each in logs
    ]


@both
def test_try_again_when_entering_keeps_the_handler_from_the_message(*, is_async: bool) -> None:
    notes: list[str] = []
    host = host_of(one=Noting("one", notes, entering=TryAgain("no connection", "10s")))

    result, given = run(host, lambda _: None, is_async=is_async)

    assert (RetryLater("10s", "one: no connection"), []) == (result, given)
    assert {} == host.calls.failures


@both
def test_try_again_when_leaving_undoes_a_success_and_nothing_else(*, is_async: bool) -> None:
    host = host_of(one=Noting("one", [], leaving=TryAgain("not committed"), swallows=ValueError()))

    assert RetryLater(None, "one: not committed") == run(host, lambda _: None, is_async=is_async)[0]
    assert DeadLetter("bad") == run(host, lambda _: DeadLetter("bad"), is_async=is_async)[0]
    assert "ValueError('no such order')" == repr(run(host, fail, is_async=is_async)[0])


def test_a_bad_delay_is_an_error_of_who_wrote_it() -> None:
    with pytest.raises(ValueError, match="soon"):
        TryAgain("no connection", "soon")


def test_contexts_of_awaited_handlers_may_be_async_and_set_what_the_handler_sees() -> None:
    notes: list[str] = []
    seen: list[str] = []

    run(host_of(one=Async(notes)), lambda _: seen.append(WHO.get()), is_async=True)

    assert ["billing"] == seen
    assert ["async enters", "async leaves"] == notes


def test_an_async_context_around_a_plain_function_is_named() -> None:
    host = host_of(one=Async([]))

    with capture_logs() as logs:
        assert (None, 1) == ((found := run(host, lambda _: None, is_async=False))[0], len(found[1]))

    assert {"one": 1} == host.calls.failures
    assert "a plain function takes a plain context manager" in str(logs[0]["exc_info"])


@both
def test_an_answer_that_is_no_context_is_named(*, is_async: bool) -> None:
    class Odd:
        @hookimpl
        def around_consume(self) -> Any:
            return "around"

    host = host_of(odd=Odd())
    assert None is run(host, lambda _: None, is_async=is_async)[0]
    assert {"odd": 1} == host.calls.failures


@both
def test_who_answers_nothing_holds_nothing(*, is_async: bool) -> None:
    class Rarely:
        @hookimpl
        def around_consume(self, delivery: Delivery) -> None:
            return None

    assert None is run(host_of(rarely=Rarely()), lambda _: None, is_async=is_async)[0]


def test_a_slow_context_is_counted() -> None:
    host = host_of(one=Noting("one", []))
    times = iter([0.0, 0.2, 1.0, 1.05])
    host.calls.now = lambda: next(times)

    run(host, lambda _: None, is_async=False)

    assert {"one": 1} == host.calls.slow


def test_a_hook_that_yields_without_being_a_context_is_refused_at_load() -> None:
    class Forgot:
        @hookimpl
        def around_consume(self) -> Any:
            yield

    with pytest.raises(ConfigurationError, match="'around_consume' yields; write @contextmanager below @hookimpl"):
        host_of(forgot=Forgot())


def test_a_cancelled_handler_s_contexts_are_left_with_that() -> None:
    left: list[type[BaseException] | None] = []

    class Holds:
        def __enter__(self) -> None:
            return

        def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
            left.append(kind)

    class Plugin:
        @hookimpl
        def around_consume(self) -> Holds:
            return Holds()

    async def forever(_: Message) -> None:
        await asyncio.sleep(1_000)

    async def story() -> bool:
        call = call_for(spec(forever, is_async=True), hooks_of(host_of(one=Plugin())), LoopClock())
        task = asyncio.get_running_loop().create_task(call(MESSAGES[0]))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert play(story)
    assert [asyncio.CancelledError] == left


def test_where_a_leave_is_cancelled_the_contexts_around_it_are_left_all_the_same() -> None:
    notes: list[str] = []

    class Slow:
        @hookimpl(trylast=True)
        @asynccontextmanager
        async def around_consume(self) -> AsyncIterator[None]:
            yield
            await asyncio.sleep(1_000)

    class Outer:
        @hookimpl(tryfirst=True)
        @contextmanager
        def around_consume(self) -> Iterator[None]:
            try:
                yield
            except asyncio.CancelledError:
                notes.append("cancelled")
                raise

    async def story() -> bool:
        host = host_of(slow=Slow(), outer=Outer())

        async def nothing(_: Message) -> None: ...

        call = call_for(spec(nothing, is_async=True), hooks_of(host), LoopClock())
        task = asyncio.get_running_loop().create_task(call(MESSAGES[0]))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert play(story)
    assert ["cancelled"] == notes


def test_a_plain_handler_s_stop_iteration_stays_one() -> None:
    """Its call is a coroutine that is run in one step, and Python makes a RuntimeError of what leaves that."""

    def end(_: Message) -> None:
        raise StopIteration("rows")

    assert "StopIteration('rows')" == repr(run(host_of(one=Noting("one", [])), end, is_async=False)[0])


def test_the_reasons_say_what_was_answered() -> None:
    assert "RetryLater(delay='10s', reason='')" == str(NotDone(RetryLater("10s")))
