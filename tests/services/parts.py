"""What tests of the services share: a world in virtual time, and a group's side that keeps books."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, MutableMapping
from typing import Any, TypeVar

from structlog.testing import capture_logs

from framework.core.budget import Budget
from framework.core.chunk import Chunk
from framework.core.window import Window
from framework.hooks.listeners import NO_LISTENERS
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.testing.sim.virtual_loop import Policy, VirtualLoop, run_on

T = TypeVar("T")
Line = MutableMapping[str, Any]

QUEUE = MessageQueue("orders", "broker-a", 3)
PLENTY = 1 << 30
STARTED_MS = 1_700_000_000_000


class LoopClock:
    """The event loop's own time, on both clocks."""

    def now_ms(self) -> int:
        return STARTED_MS + self.monotonic_ms()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def monotonic_ms(self) -> int:
        return int(self.monotonic() * 1000)


class Plan:
    """A group's plan, as far as an owned queue asks for it."""

    listeners = NO_LISTENERS

    def __init__(self, name: str = "billing") -> None:
        self.name = name

    def judged(self, message: Message, result: object) -> object:
        return result


class EvenChance:
    """Always the middle, so that a test can name its instants."""

    def random(self) -> float:
        return 0.5

    def below(self, limit: int) -> int:
        return limit // 2

    def token(self, count: int) -> bytes:
        return bytes(count)


def play(
    main: Callable[[], Coroutine[Any, Any, T]], *, seed: int = 0, policy: Policy = "shuffle", complaints: int = 0
) -> T:
    """Run a story in virtual time; asyncio itself must have had nothing (or so much) to complain about."""
    loop = VirtualLoop(seed, policy=policy)
    result = run_on(loop, main())
    assert complaints == len(loop.complaints), loop.complaints
    return result


def play_logged(main: Callable[[], Coroutine[Any, Any, T]], *, seed: int = 0) -> tuple[T, list[Line]]:
    """The same, with the lines that were logged."""
    with capture_logs() as lines:
        result = play(main, seed=seed)
    return result, lines


def told(lines: list[Line], *fields: str) -> list[tuple[Any, ...]]:
    """Event and these fields of each line that has them all."""
    return [(line["event"], *(line[field] for field in fields)) for line in lines if set(fields) <= set(line)]


def start(coro: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
    return asyncio.get_running_loop().create_task(coro, name=name)


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel and wait, in order."""
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def turns(count: int = 50) -> None:
    """Let everybody else run for a while in which hardly any time passes."""
    for _ in range(count):
        await asyncio.sleep(0)


def messages_from(first: int, count: int, *, attempt: int = 1) -> list[Message]:
    return [
        Message("orders", b"x", queue=QUEUE, queue_offset=offset, attempt=attempt)
        for offset in range(first, first + count)
    ]


class Books:
    """A run that keeps books, and does with a chunk that is left what the pull loop does with it."""

    def __init__(self, call: Callable[[Message], Any]) -> None:
        self.call = call
        self.window = Window(0, Budget(PLENTY), self)
        self.ended = 0
        self.uncommon_ends: list[tuple[int, str]] = []
        """Offset, and what the handler returned or raised."""
        self.lates = 0
        self.queue, self.group_name = QUEUE, "billing"
        self.pulled_at = 0.0

    def admit(self, count: int) -> Chunk:
        first = self.window.end
        chunk = self.window.admit(messages_from(first, count), first, first + count, 10 * count)
        assert chunk is not None
        return chunk

    def left(self, chunk: Chunk, ended: int) -> None:
        self.ended += ended
        if chunk.is_finished and not self.window.is_closed:
            self.window.settle()
            self.window.release(chunk)

    def late(self, chunk: Chunk, count: int) -> None:
        self.lates += count

    def not_success(self, chunk: Chunk, index: int, result: object, started: float) -> None:
        self.uncommon_ends.append((chunk.messages[index].queue_offset, repr(result)))
        assert chunk.finish(index)
        if chunk.is_finished:
            self.left(chunk, 0)
