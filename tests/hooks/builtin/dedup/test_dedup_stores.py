"""Where `once` remembers: a key is there for its time, within bounds, and in a file through a crash."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from framework.errors import StoreError
from framework.hooks.builtin.dedup.once_memory import MemoryKeys, MemoryStore
from framework.hooks.builtin.dedup.once_sqlite import SWEEP_MS, SqliteKeys, SqliteStore
from framework.model.contracts import RemembersKeys
from tests.patience import PATIENCE_S


class Means:
    group = "billing"

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.at_ms = 1_000
        self.jobs = 0

    def now_ms(self) -> int:
        return self.at_ms

    async def in_thread(self, job: Callable[[], Any]) -> Any:
        self.jobs += 1
        return await asyncio.to_thread(job)


@pytest.fixture
def means(tmp_path: Path) -> Means:
    return Means(tmp_path / "made" / "when needed")


def play(store: RemembersKeys, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        try:
            await story()
        finally:
            await store.close()

    asyncio.run(whole())


@pytest.mark.parametrize("kind", [MemoryStore, SqliteStore])
def test_a_key_is_there_for_its_time_and_may_be_recorded_again(
    kind: type[MemoryStore | SqliteStore], means: Means
) -> None:
    store = kind().open(means)

    async def story() -> None:
        assert not await store.has("a")
        await store.record("a", 100)
        await store.record("b", 1_000)
        assert (True, True, False) == (await store.has("a"), await store.has("b"), await store.has("c"))
        means.at_ms += 100
        assert (False, True) == (await store.has("a"), await store.has("b"))
        await store.record("a", 100)
        means.at_ms += 99
        assert await store.has("a")

    play(store, story)


def test_memory_forgets_what_is_over_and_the_oldest_beyond_its_bound(means: Means) -> None:
    store = MemoryKeys(means, keys_max=3)

    async def story() -> None:
        await store.record("short", 10)
        means.at_ms += 10
        for key in "abcd":
            await store.record(key, 1_000)
        assert "<MemoryKeys 3 keys>" == repr(store)
        assert [False, True, True, True] == [await store.has(key) for key in "abcd"]

    play(store, story)


def test_keys_that_come_together_share_a_transaction(means: Means) -> None:
    store = SqliteKeys(means)

    async def story() -> None:
        await store.has("opens it")
        means.jobs = 0
        await asyncio.gather(*(store.record(f"key {number}", 1_000) for number in range(50)))
        assert means.jobs <= 2, "the first goes alone, the others together"
        assert all([await store.has(f"key {number}") for number in range(50)])

    play(store, story)


def test_what_is_over_leaves_the_file(means: Means) -> None:
    store = SqliteKeys(means)

    async def story() -> None:
        await store.record("a", 1)
        means.at_ms += SWEEP_MS
        await store.record("b", 1_000)
        assert store._connection is not None
        assert [("b",)] == store._connection.execute("SELECT key FROM handled").fetchall()

    play(store, story)


def test_a_file_that_is_damaged_is_an_error_of_the_store_for_each_who_asks(means: Means) -> None:
    path = Path(means.folder) / "billing.sqlite3"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database" * 1_000)
    store = SqliteStore().open(means)

    async def story() -> None:
        asked = [store.has("a"), *(store.record(key, 1_000) for key in "abc")]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [StoreError] * 4 == [type(answer) for answer in answers]
        assert str(path) in str(answers[0])

    play(store, story)


CRASHING = """
import asyncio, os, signal, sys
from framework.hooks.builtin.dedup.once_sqlite import SqliteStore

class Means:
    group, folder = "billing", sys.argv[1]
    def now_ms(self): return 1_000
    async def in_thread(self, job): return job()

async def main():
    await SqliteStore().open(Means()).record("a", 1_000)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def test_a_key_outlives_the_process_that_recorded_it(means: Means) -> None:
    ended = subprocess.run([sys.executable, "-c", CRASHING, means.folder], timeout=PATIENCE_S, check=False)
    store = SqliteStore().open(means)

    async def story() -> None:
        assert (-signal.SIGKILL, True) == (ended.returncode, await store.has("a"))

    play(store, story)
