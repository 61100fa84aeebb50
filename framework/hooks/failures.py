"""Failures: which exceptions out of a plugin's code are the plugin's own, and which only pass through it.

The one home of that rule, for hooks and for all that plugins and applications offer. Every class of exception is
contained (`sys.exit()`, a panic of a library in Rust, a CancelledError that nobody asked for), except what was done to
us: a signal of the process, the cancellation of our task, the closing of our coroutine.
"""

from __future__ import annotations

import asyncio
import dis
import signal
from collections.abc import Iterator
from types import AsyncGeneratorType, CodeType, CoroutineType, GeneratorType, TracebackType

from framework import authors
from framework.core.results import failure_of

_RAISE = dis.opmap["RAISE_VARARGS"]
_UNAWAITED = (CoroutineType, AsyncGeneratorType)


def plugin_failure(error: BaseException) -> Exception:
    """What a plain function raised, as an Exception; what only passed through it is raised again.

    Nobody can cancel or close a plain function while it runs, so a CancelledError or GeneratorExit is its own.
    """
    if not isinstance(error, Exception) and _is_of_a_signal(error):
        raise error
    return failure_of(error)


def plugin_failure_awaited(error: BaseException) -> Exception:
    """The same for what came out of an `await`, which may also be our own cancellation, or our coroutine's closing."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise error
    elif isinstance(error, GeneratorExit) and not is_raised(error):
        raise error
    return plugin_failure(error)


def raised(error: BaseException) -> str:
    """What an error of the user's says, with its kind; the kind alone where it cannot even say that."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - border: a class of the user's
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def line_of(error: BaseException) -> str | None:
    """The user's own line, with its file."""
    found = authors.line_of(error)
    return f"{found[0].f_code.co_filename}:{found[1]}" if found is not None else None


def reject_coroutine(answer: object, name: str) -> None:
    """TypeError for a coroutine, which nothing would await: it is closed, and has done nothing."""
    if isinstance(answer, _UNAWAITED):
        discard(answer)
        raise TypeError(f"{name} returned a coroutine, which is never awaited; write a plain function")


def reject_unrun(answer: object, name: str) -> None:
    """The same of a hook that answers nothing: a generator has done nothing either."""
    if isinstance(answer, GeneratorType):
        discard(answer)
        raise TypeError(f"{name} returned a generator, which is never run; write a plain function")
    reject_coroutine(answer, name)


def discard(answer: object) -> None:
    """Close what would complain, once it is garbage, that it was never awaited."""
    if isinstance(answer, CoroutineType | GeneratorType):
        answer.close()


def _is_of_a_signal(error: BaseException) -> bool:
    """Whether a signal's handler raised it. Python's own for SIGINT is written in C and leaves no frame, and what it
    interrupts is between two instructions: the last frame is not at a `raise`, as it is of one who wrote that.
    """
    handlers = set(_handlers())
    if any(entry.tb_frame.f_code in handlers for entry in _entries(error)):
        return True
    return isinstance(error, KeyboardInterrupt) and not is_raised(error)


def _handlers() -> Iterator[CodeType]:
    for number in signal.valid_signals():
        handler: object = signal.getsignal(number)
        handler = getattr(handler, "func", handler)  # asyncio's is a partial
        code = getattr(getattr(handler, "__func__", handler), "__code__", None)
        if code is not None:
            yield code


def is_raised(error: BaseException) -> bool:
    """Whether a `raise` made it; else it was thrown in from outside."""
    *_, last = _entries(error)
    return last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE


def _entries(error: BaseException) -> Iterator[TracebackType]:
    entry = error.__traceback__
    assert entry is not None, "the caller caught it"
    while entry is not None:
        yield entry
        entry = entry.tb_next
