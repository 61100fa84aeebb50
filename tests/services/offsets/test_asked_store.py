"""A store of progress that is slow, never answers or raises is named, and is a failure like any other."""

from __future__ import annotations

import asyncio

import pytest

from framework.errors import FrameworkError, StoreError, Superseded
from framework.model.contracts import Kept
from framework.model.queue import MessageQueue
from framework.runtime.group.progressing import PATIENCE_SECONDS, QUIET_SECONDS, AskedStore
from tests.services.parts import QUEUE, LoopClock, play, play_logged, told


class Store:
    """Answers after so long, or raises."""

    def __init__(self, after_s: float = 0.0, error: Exception | None = None) -> None:
        self.after_s, self.error = after_s, error
        self.written = list[tuple[int, bytes]]()

    async def read(self, queue: MessageQueue) -> Kept | None:
        await self._wait()
        return Kept(*self.written[-1]) if self.written else None

    async def take(self, queue: MessageQueue, content: bytes) -> int:
        await self.write(queue, 7, content)
        return 7

    async def write(self, queue: MessageQueue, epoch: int, content: bytes) -> None:
        await self._wait()
        self.written.append((epoch, content))

    async def _wait(self) -> None:
        await asyncio.sleep(self.after_s)
        if self.error is not None:
            raise self.error


def asked(store: Store) -> AskedStore:
    return AskedStore("billing", "redis", store, LoopClock())


def test_what_it_keeps_and_answers_passes_as_it_is() -> None:
    store = Store()

    async def story() -> tuple[Kept | None, int, Kept | None]:
        here = asked(store)
        none = await here.read(QUEUE)
        epoch = await here.take(QUEUE, b"first")
        await here.write(QUEUE, epoch, b"second")
        return none, epoch, await here.read(QUEUE)

    answers, lines = play_logged(story)
    assert (None, 7, Kept(7, b"second")) == answers
    assert ([(7, b"first"), (7, b"second")], []) == (store.written, lines)


def test_one_that_is_slow_is_named_when_it_begins_and_not_with_each_record() -> None:
    async def story() -> None:
        here = asked(Store(after_s=2))
        for _ in range(3):
            await here.write(QUEUE, 7, b"")
        await asyncio.sleep(QUIET_SECONDS + 1)
        await here.read(QUEUE)

    _, lines = play_logged(story)
    slow = ("progress store slow", "billing", str(QUEUE), "redis", 2000)
    assert [slow, slow] == told(lines, "group", "queue", "store", "elapsed_ms")


def test_one_that_never_answers_has_failed_after_half_a_minute() -> None:
    async def story() -> float:
        with pytest.raises(FrameworkError, match="progress store redis: no answer in 30 s"):
            await asked(Store(after_s=1e9)).take(QUEUE, b"")
        return asyncio.get_running_loop().time()

    assert play(story) == pytest.approx(PATIENCE_SECONDS, abs=0.01)


@pytest.mark.parametrize("error", [ValueError("no such key"), TimeoutError("of its own"), ConnectionResetError("gone")])
def test_whatever_else_it_raises_is_one_of_our_failures(error: Exception) -> None:
    async def story() -> None:
        with pytest.raises(FrameworkError, match=f"progress store redis: {type(error).__name__}: .*{error}"):
            await asked(Store(error=error)).read(QUEUE)

    play(story)


def test_one_that_cannot_be_awaited_has_failed_as_well() -> None:
    class Plain(Store):
        def read(self, queue: MessageQueue) -> None: ...  # type: ignore[override]  # what an author forgot

    async def story() -> None:
        with pytest.raises(FrameworkError, match=r"progress store redis: TypeError: .*await"):
            await asked(Plain()).read(QUEUE)

    play(story)


@pytest.mark.parametrize("error", [StoreError("a record that cannot be read"), Superseded("by another")])
def test_a_failure_of_ours_keeps_its_meaning(error: FrameworkError) -> None:
    async def story() -> None:
        with pytest.raises(type(error)) as caught:
            await asked(Store(error=error)).write(QUEUE, 7, b"")
        assert caught.value is error

    play(story)
