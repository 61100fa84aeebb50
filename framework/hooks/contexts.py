"""One plugin's `around_consume`: its context around a handler's call, entered and left with its failures contained.

A context changes nothing for the message except by `TryAgain`, which has it delivered again. An exception that it
swallows is still a failure of the handler: what `__exit__` returns is ignored.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from framework.core import limits
from framework.errors import shorten
from framework.hooks.failures import discard, plugin_failure_awaited
from framework.hooks.verdict import NothingFor, TryAgain
from framework.model.delivery import Delivery
from framework.model.outcome import RetryLater

if TYPE_CHECKING:
    from framework.hooks.calls import Calls, Implementation
from collections.abc import Coroutine
from typing import TypeVar

Context: TypeAlias = Any
"""An `AbstractContextManager`, an `AbstractAsyncContextManager`, or both."""
SLOW_SECONDS = limits.SLOW_HOOK_MS / 1000
Left: TypeAlias = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]


class Around:
    """Resolved once, at start; shared by all deliveries of all handlers, it keeps nothing of any."""

    __slots__ = ("_calls", "_each", "_function", "_plugin")

    def __init__(self, each: Implementation, calls: Calls) -> None:
        self._each, self._plugin, self._function, self._calls = each, each.plugin, each.function, calls

    def begin(self, delivery: Delivery) -> Context | RetryLater | NothingFor | None:
        """What is to be around the handler, not entered yet; None or NothingFor for nothing; or the message is to come
        again.
        """
        now = self._calls.now
        began = now()
        try:
            context = self._function(delivery)
        except TryAgain as wish:
            context = self._again(wish)
        except BaseException as error:  # noqa: BLE001 - border: a hook's
            self._calls.failed(self._each, error)
            context = None
        if (seconds := now() - began) > SLOW_SECONDS:
            self._calls.timed(self._each, seconds)
        return context

    async def enter(self, context: Context, is_async: bool) -> Context | RetryLater | None:
        """The context that the handler now runs in; None where it failed; or the message is to come again.

        Only an async handler takes async contexts. For a plain one nothing is awaited here: see `run_sync`.
        """
        began = self._calls.now()
        try:
            if is_async and hasattr(context, "__aenter__"):
                await context.__aenter__()
            elif hasattr(context, "__enter__"):
                context.__enter__()
            else:
                raise TypeError(_no_context(context, is_async=is_async))
        except TryAgain as wish:
            return self._again(wish)
        except BaseException as error:  # noqa: BLE001 - border: a hook's
            self._calls.failed(self._each, plugin_failure_awaited(error) if is_async else error)
            return None
        finally:
            self._calls.timed(self._each, self._calls.now() - began)
        return context

    async def leave(self, context: Context, error: BaseException | None, is_async: bool) -> RetryLater | None:
        """With what the handler raised, NotDone for an answer, or None; what comes back is the wish to try again."""
        began = self._calls.now()
        exit_arguments: Left = (None, None, None) if error is None else (type(error), error, error.__traceback__)
        try:
            if is_async and hasattr(context, "__aexit__"):
                await context.__aexit__(*exit_arguments)
            else:
                context.__exit__(*exit_arguments)
        except TryAgain as wish:
            return self._again(wish)
        except BaseException as raised:  # noqa: BLE001 - border: a hook's
            if raised is not error:
                self._calls.failed(self._each, plugin_failure_awaited(raised) if is_async else raised)
        finally:
            self._calls.timed(self._each, self._calls.now() - began)
        return None

    def _again(self, wish: TryAgain) -> RetryLater:
        return RetryLater(wish.delay, f"{self._plugin}: {wish.reason}" if wish.reason else self._plugin)

    def __repr__(self) -> str:
        return f"<Around {self._plugin}>"


def _no_context(answer: object, *, is_async: bool) -> str:
    discard(answer)
    wish = (
        "a context manager is what it takes, or nothing"
        if is_async
        else "a plain function takes a plain context manager"
    )
    return f"around_consume answered {shorten(answer)}; {wish}"


T = TypeVar("T")


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """What the coroutine returns or raises; it must not suspend.

    So what is put around async and plain handlers is written once, as a coroutine. Around a plain handler it only meets
    plain contexts and functions, and runs to its end in one step where it is called: no event loop, no task.
    """
    try:
        coroutine.send(None)
    except StopIteration as returned:
        value: T = returned.value
        return value
    except RuntimeError as error:
        # Python makes this of a StopIteration that leaves a coroutine; from a plain handler it came out as it was.
        if not isinstance(error.__cause__, StopIteration) or str(error) != "coroutine raised StopIteration":
            raise
        stop = error.__cause__
    else:
        coroutine.close()
        raise AssertionError(f"{coroutine} suspends, and a plain function calls it")
    raise stop
