"""SyncProducer: the producer for code that blocks: scripts, Django, tests, plain handlers.

One of its own has an event loop on a thread of its own, so heartbeats and routes go on between two calls. It owns that
thread and nothing of sending.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError, Future, wait
from contextlib import contextmanager
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar, Unpack

from framework.client.dialogue.transactions import TransactionBlock
from framework.client.producer import Producer
from framework.client.producing.options import ProducerOptions
from framework.errors import BrokerUnreachable, FrameworkError
from framework.mistakes import ArgumentWrong, WrongMoment
from framework.model.message import Message
from framework.net import forks
from framework.net.real_world import real_world
from framework.ports import World

P = ParamSpec("P")
R = TypeVar("R")
LOOK_SECONDS = 1.0
"""How often a caller that waits looks whether its loop is still there."""
_Running: TypeAlias = tuple[asyncio.AbstractEventLoop, Producer]


def _blocking(
    method: Callable[Concatenate[Producer, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[SyncProducer, P], R]:
    """The same method, which returns when it is done."""

    @wraps(method)
    def call(self: SyncProducer, /, *args: P.args, **kwargs: P.kwargs) -> R:
        loop, producer = self._running(method.__name__)
        return _waited(method(producer, *args, **kwargs), loop)

    return call


class SyncProducer:
    """Sends and waits: `with SyncProducer(name_servers=["127.0.0.1:9876"]) as producer: producer.send(...)`.

    Options and methods are those of `Producer`, without `await`. Threads may share it. In an event loop it refuses to
    block: use `Producer` there.
    """

    def __init__(
        self,
        *,
        name_servers: str | Sequence[str] = (),
        over: Producer | None = None,
        world: World | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """`over`: a producer that runs in another thread's event loop, instead of one of its own."""
        if (over is None) == (not name_servers):
            raise ArgumentWrong("SyncProducer: give either name_servers or over")
        self._world = world or real_world()
        self._make: Callable[[], Producer] = lambda: Producer(name_servers=name_servers, world=world, **options)
        self._ready: Future[_Running] | None = None
        self._ended: Future[None] = Future()
        self._asked: asyncio.Event | None = None
        self._parent: int | None = None
        if over is not None and options:
            raise ArgumentWrong(f"SyncProducer: {', '.join(options)}: give it to the producer that is `over`")
        if over is None:
            self._make()  # what is wrong with an option is said here, and not by a thread
        else:
            self._ready = Future()
            self._ready.set_result((over.cluster.loop, over))
            forks.tell(self)

    send = _blocking(Producer.send)
    """As `Producer.send`."""
    send_one_way = _blocking(Producer.send_one_way)
    """As `Producer.send_one_way`."""
    send_batch = _blocking(Producer.send_batch)
    """As `Producer.send_batch`."""
    recall = _blocking(Producer.recall)
    """As `Producer.recall`."""
    queue_of = _blocking(Producer.queue_of)
    """As `Producer.queue_of`."""
    request = _blocking(Producer.request)
    """As `Producer.request`."""

    @contextmanager
    def transaction(self, message: Message, *, timeout: str | float | None = None) -> Iterator[TransactionBlock]:
        """As `Producer.transaction`, by `with`. An interrupt in the block leaves the message to the check function."""
        loop, producer = self._running("transaction")

        async def begin() -> TransactionBlock:
            return await producer.transaction(message, timeout=timeout).__aenter__()

        block = _waited(begin(), loop)
        try:
            yield block
        except Exception as error:  # border: the caller's block
            self._end(block, error)
            raise
        except BaseException:
            block.leave()
            raise
        self._end(block, None)

    def _end(self, block: TransactionBlock, error: Exception | None) -> None:
        """As the block of `Producer`: an end that cannot be told, here or in a child process, is the check's affair."""
        try:
            loop, _ = self._running("transaction")
            _waited(block.__aexit__(None if error is None else type(error), error, None), loop)
        except FrameworkError as failure:
            block.left(block.end_by(error), failure)
        finally:
            block.leave()

    def start(self) -> None:
        """Start the thread, once."""
        if self._ended.done():
            raise WrongMoment("SyncProducer.start: it was stopped, or failed to start; make a new one")
        if self._ready is None:
            ready = self._ready = Future()
            forks.tell(self)
            assert self._world.watchman is not None, "a simulation has no threads"
            self._world.watchman.attend(lambda: self._serve(ready), "producer")
            try:
                ready.result()
            except BaseException:
                self._ready = None
                raise

    def stop(self) -> None:
        """Close its connections and end the thread. Sends of other threads that are under way fail."""
        if self._asked is not None and self._parent is None:
            loop, _ = self._running("stop")
            loop.call_soon_threadsafe(self._asked.set)
            self._asked = None
            self._ended.result()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _serve(self, ready: Future[_Running]) -> None:
        """The thread's whole life."""
        try:
            asyncio.run(self._live(ready))
        except BaseException as error:  # noqa: BLE001 - border: whoever waits for the start is told
            if not ready.done():
                ready.set_exception(error)
        finally:
            self._ended.set_result(None)

    async def _live(self, ready: Future[_Running]) -> None:
        asked = self._asked = asyncio.Event()
        async with self._make() as producer:
            ready.set_result((asyncio.get_running_loop(), producer))
            await asked.wait()

    def _running(self, method: str) -> _Running:
        if self._parent is not None:
            raise forks.misused("this SyncProducer", self._parent)
        if self._ready is None or not self._ready.done() or self._ended.done():
            raise WrongMoment("SyncProducer: start it first, or use `with SyncProducer(...)`; once stopped it stays so")
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            loop, producer = self._ready.result()
            if loop.is_closed():
                raise WrongMoment(f"SyncProducer.{method}: {producer.cluster.state()}, and its event loop") from None
            return loop, producer
        raise WrongMoment(
            f"SyncProducer.{method}: it would block the event loop of this thread; use Producer and await it"
        )

    def forked(self, parent: int) -> None:
        """In a child: its thread is the parent's."""
        self._parent = parent

    def __repr__(self) -> str:
        return f"<SyncProducer {'running' if self._asked is not None else 'at rest'}>"


def _waited(work: Coroutine[Any, Any, R], loop: asyncio.AbstractEventLoop) -> R:
    """The result of a call that runs in the loop's thread; BrokerUnreachable where the loop ends before it."""
    try:
        future = asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError:  # the loop was closed since we looked
        work.close()
        raise BrokerUnreachable("SyncProducer: it was stopped; nothing was sent") from None
    try:
        while True:
            done, _ = wait((future,), LOOK_SECONDS)
            if done:
                return future.result()
            if loop.is_closed():  # between the call and its first step
                work.close()
                raise BrokerUnreachable("SyncProducer: it was stopped; nothing was sent")
    except CancelledError:
        raise BrokerUnreachable("SyncProducer: it was stopped; what was under way may be done") from None
    except KeyboardInterrupt:
        future.cancel()
        raise
