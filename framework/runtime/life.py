"""Life: the span of one `run`: who may ask for its end, from where; who may wait for it; and that no fork shares it.

It knows the loop that the application runs in, and nothing of what the application does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from framework.errors import ConfigurationError
from framework.net import forks

_INSIDE: ContextVar[Life | None] = ContextVar("framework_life", default=None)
"""Whose handlers, hooks and resources run the code that asks. Tasks and threads inherit it."""


class Life:
    """One an application. `asked` is set when its end is wanted."""

    def __init__(self, what: str, on_asked: Callable[[], None], on_forked: Callable[[], None]) -> None:
        self.asked = asyncio.Event()
        self.is_running = False
        self._what, self._on_asked, self._on_forked = what, on_asked, on_forked
        self._stopped = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._parent: int | None = None
        """The process that this is the life of, where this one was forked from it."""
        forks.tell(self)

    @contextmanager
    def lived(self) -> Iterator[None]:
        """Around everything that the application does."""
        self.check_process()
        if self.is_running or self._stopped.is_set():
            raise ConfigurationError(f"{self._what} has run already: an App runs once; make another one")
        self.is_running, self._loop = True, asyncio.get_running_loop()
        before = _INSIDE.set(self)
        try:
            yield
        finally:
            _INSIDE.reset(before)
            self.is_running = False
            self._stopped.set()

    def ask(self) -> None:
        """From any thread, and from signal handlers, which run between two instructions of anything."""
        self.check_process()
        if self._loop is None:
            self._ask()  # it has not begun: then it ends as soon as it has
            return
        with suppress(RuntimeError):  # the loop is closed: it has ended
            self._loop.call_soon_threadsafe(self._ask)

    async def over(self) -> None:
        """Ask, and wait for the end. Whoever runs inside is waited for himself, and goes on at once."""
        if _INSIDE.get() is self or self._loop is not asyncio.get_running_loop():
            self.ask()
        else:
            self.check_process()
            self._ask()
        if not self.is_running or self._loop is None or _INSIDE.get() is self:
            return
        if self._loop is asyncio.get_running_loop():
            await self._stopped.wait()
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._stopped.wait(), self._loop))

    def _ask(self) -> None:
        self.asked.set()
        self._on_asked()

    # Forks

    def check_process(self) -> None:
        """Raises Forked where it is another process's."""
        if self._parent is not None:
            raise forks.misused(self._what, self._parent)

    def forked(self, parent: int) -> None:
        """In a child. What has not begun yet may begin there; what runs goes on in the parent only."""
        if self._loop is None:
            forks.tell(self)  # of forks from this one
        else:
            self._parent = parent
            forks.isolate(self._loop)
            with suppress(RuntimeError):  # where the loop's own thread forked, it may be come back to
                self._loop.call_soon(forks.leave, self._what, parent)
        self._on_forked()
