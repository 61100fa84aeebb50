"""What the virtual loop runs: steps, and tasks and futures that hash alike in every process."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class NumberingLoop(asyncio.BaseEventLoop):
    """A loop that counts what it makes."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = 0

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers


class Step(asyncio.TimerHandle):
    """A handle that knows whose it is. It has slots of its own, since asyncio's constructor asks for debug mode."""

    __slots__ = ("args", "callback", "context", "is_cancelled", "loop", "owner", "time")

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: NumberingLoop,
        context: contextvars.Context | None,
        time: float,
    ) -> None:
        self.callback = callback
        self.args = args
        self.loop = loop
        self.context = contextvars.copy_context() if context is None else context
        self.time = time
        self.is_cancelled = False
        owner = getattr(callback, "__self__", None)
        if owner is None:
            # A plain function acts for its first argument: asyncio.sleep's timer belongs to its future.
            owner = args[0] if args else callback
        self.owner = owner

    def __repr__(self) -> str:
        return f"<Step {self.name} at {self.time:.6f}{' cancelled' if self.is_cancelled else ''}>"

    def __hash__(self) -> int:
        return hash(self.time)

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def name(self) -> str:
        if isinstance(self.owner, asyncio.Task):
            return self.owner.get_name()
        return str(getattr(self.callback, "__qualname__", type(self.callback).__name__))

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.time

    def run(self) -> None:
        try:
            self.context.run(self.callback, *self.args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  # border: the loop's, as in asyncio
            self.loop.call_exception_handler({"message": f"exception in {self.name}", "exception": error})


class VirtualFuture(asyncio.Future[T]):
    """Hashed by the order in which futures are first put into sets."""

    _number = 0

    def __hash__(self) -> int:
        if not self._number:
            loop: Any = self.get_loop()
            self._number = loop.next_number()
        return self._number


class VirtualTask(asyncio.Task[T]):
    """Hashed and named by creation number; asyncio's default names count over the whole process."""

    def __init__(self, coro: Coroutine[Any, Any, T], *, loop: NumberingLoop, name: str | None, context: Any) -> None:
        self.number = loop.next_number()  # first: from 3.12 on the constructor hashes the task
        self.context: contextvars.Context = contextvars.copy_context() if context is None else context
        kind = getattr(coro, "__qualname__", type(coro).__name__)
        super().__init__(coro, loop=loop, name=name or f"{kind}#{self.number}", context=self.context)

    def __hash__(self) -> int:
        return self.number

    @property
    def has_unread_error(self) -> bool:
        """It has failed, and nobody has asked how: the end of the last reference to it would be a complaint."""
        return bool(getattr(self, "_log_traceback", False))

    def forget(self) -> None:
        """The run is over: whoever still waits shall not be complained of."""
        self._log_destroy_pending = False
