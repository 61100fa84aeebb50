"""Life: the span of one `run`: who may ask for its end, from where; who may wait for it, and until it is ready; and
that no fork shares it.

It knows the loop that the application runs in, and nothing of what the application does.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent import futures
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

from framework.client.cluster import Cluster
from framework.client.producer import Producer
from framework.errors import BrokerUnreachable
from framework.mistakes import WrongMoment
from framework.net import forks
from framework.net.task_tree import TaskTree

if TYPE_CHECKING:
    from framework.runtime.app import App


T = TypeVar("T")
LOOK_SECONDS = 0.2
"""How often one that waits on another thread looks whether the application is still there to answer."""

_INSIDE: ContextVar[Life | None] = ContextVar("framework_life", default=None)
"""The application whose handlers, hooks and resources run the current code.

`stop` must not wait for itself there. Tasks and the threads of `RealWorkers` inherit the variable; a check for the
calling task alone would miss what a handler starts.
"""


class Life:
    """One an application. `asked` is set when its end is wanted."""

    def __init__(self, what: str, on_asked: Callable[[], None], on_forked: Callable[[], None]) -> None:
        self.asked = asyncio.Event()
        self.is_running = False
        self._what, self._on_asked, self._on_forked = what, on_asked, on_forked
        self._stopped = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._waiting: list[futures.Future[None]] = []
        """Whoever waits for the end in other loops."""
        self.failure: BaseException | None = None
        """What it ended with, where that was no stop."""
        self._parent: int | None = None
        """The process that this is the life of, where this one was forked from it."""
        forks.tell(self)

    @contextmanager
    def lived(self) -> Iterator[None]:
        """Around everything that the application does."""
        self.check_process()
        if self.is_running or self._stopped.is_set():
            raise WrongMoment(f"{self._what} has already run; an App runs once: make another one")
        self.is_running, self._loop, self._thread = True, asyncio.get_running_loop(), threading.get_ident()
        before = _INSIDE.set(self)
        try:
            yield
        except BaseException as error:
            self.failure = error
            raise
        finally:
            _INSIDE.reset(before)
            self.is_running = False
            self._stopped.set()
            for each in self._waiting:
                if each.set_running_or_notify_cancel():
                    each.set_result(None)

    @property
    def phase(self) -> str:
        """In a word."""
        if not self.is_running:
            return "stopped" if self._stopped.is_set() else "new"
        return "stopping" if self.asked.is_set() else "running"

    @property
    def state(self) -> str:
        """For whoever finds it at another moment than he thought, with the way out."""
        if self.failure is not None:
            cancelled = isinstance(self.failure, asyncio.CancelledError)
            said = str(self.failure).replace("\n", "; ")
            how = "its run() was cancelled" if cancelled else f"{type(self.failure).__name__}: {said}"
            return f"{self._what} has failed: {how}"
        return {
            "new": f"{self._what} has not started: `await app.run()` in a task, and then `await app.started()`",
            "stopped": f"{self._what} has stopped; an App runs once: make another one",
        }.get(self.phase, f"{self._what} is {self.phase}")

    @property
    def goes_on(self) -> bool:
        """It runs, and nobody has asked for its end."""
        return self.is_running and not self.asked.is_set()

    def on_loop(self, what: str, change: Callable[[], T]) -> T:
        """Make a change, from any thread; answers, or raises, what comes of it.

        State has one thread. Any other hands the change over, and waits until it was made between two steps there.
        """
        self.check_process()
        if self._stopped.is_set():
            raise WrongMoment(f"{what}: {self._what} has stopped and cannot be changed any more")
        if self._loop is None or _running_loop() is self._loop:
            return change()
        if threading.get_ident() == self._thread:
            raise WrongMoment(
                f"{what}: called on the thread of {self._what} while its event loop does not run; "
                "call it in a coroutine there, or from another thread"
            )
        made: futures.Future[T] = futures.Future()

        def make() -> None:
            if made.set_running_or_notify_cancel():
                try:
                    made.set_result(self.on_loop(what, change))
                except BaseException as error:  # noqa: BLE001 - border: it is the caller's, on his thread
                    made.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(make)
        except RuntimeError:  # the loop is closed
            made.cancel()
        while not made.done():
            with suppress(futures.TimeoutError):
                return made.result(LOOK_SECONDS)
            if not self.is_running:
                made.cancel()
        try:
            return made.result()
        except futures.CancelledError:
            raise WrongMoment(f"{what}: {self._what} stopped before this was done") from None

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
            waiting: futures.Future[None] = futures.Future()
            self._waiting.append(waiting)
            if self.is_running:  # else it may have ended before it could see us
                await asyncio.wrap_future(waiting)

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


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


PATIENCE = "60s"
"""A start itself waits for brokers for ever, unless settings limit it; whoever serves requests wants to know."""
NOBODY_RUNS_SECONDS = 10.0
"""How long one that nobody runs is waited for: a task that was just made begins in the next turn of the loop."""
READY_LOOK_SECONDS = 0.05


async def started(life: Life, reasons: Callable[[], Iterator[str]], within_s: float | None) -> None:
    """Return when there is no reason against it being ready; raise what stands in the way."""
    now = asyncio.get_running_loop().time
    began = now()
    while True:
        life.check_process()
        waited = now() - began
        if life.phase in {"stopping", "stopped"} or (life.phase == "new" and waited > NOBODY_RUNS_SECONDS):
            raise WrongMoment(life.state) from life.failure
        if life.phase == "running" and next(reasons(), None) is None:
            return
        if within_s is not None and waited > within_s:
            raise BrokerUnreachable(f"{life.state}, and not ready after {within_s:g} s: {'; '.join(reasons())}")
        await asyncio.sleep(READY_LOOK_SECONDS)


def producer_over(cluster: Cluster | None, life: Life) -> Producer:
    """Of an application that has begun."""
    if cluster is None:
        raise WrongMoment(f"App.publisher: {life.state}")
    return Producer(cluster=cluster)


@asynccontextmanager
async def beside(app: App) -> AsyncIterator[None]:
    """Ready when the block begins, drained behind its end; raises what the application failed with."""
    tree = TaskTree(on_error=lambda *_: None)  # it is raised here
    running = tree.start(app.run(), name="application")
    try:
        await app.started()
        try:
            yield
        finally:
            await app.stop()
        await running
    finally:
        await tree.close()
