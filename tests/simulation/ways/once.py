"""The way `once`: duplicates that a handler had lately are dropped, by a key that several messages share.

The stores are the shipped ones, or one that all members share as a database would be, now and then slow or failing.
Each is watched: what it was asked and what it answered is on record (`checkers/once_holds.py`).
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import replace

from framework.hooks import hookimpl
from framework.hooks.builtin.dedup.once_memory import MemoryStore
from framework.hooks.builtin.dedup.once_sqlite import SqliteKeys
from framework.model.contracts import DedupMeans, DedupStore, RemembersKeys
from framework.model.message import RETRY_TOPIC, Message
from framework.testing.sim.disk import SimDisk
from framework.testing.sim.streams import Stream
from tests.simulation.recorder import Recorder
from tests.simulation.workload import GroupLoad, Workload

STORES = ("sim-memory", "sim-sqlite", "sim-shared", "sim-flaky")
KEEPS_S = (5.0, 600.0)
KEYS = (20, 40, 0)
"""So many keys are sent, in turn; 0: each message has its own."""
TAKES_S = (0.0005, 0.005, 0.05)
FAIL_RATE, SLOW_RATE, SLOW_S = 0.1, 0.02, 8.0
"""Of the store that is not to be relied on; so slow that nobody waits for it."""


def dress(workload: Workload, chance: Stream) -> Workload:
    """The concurrent group, where it takes messages one by one."""
    store, keep_s, keys = chance.pick(STORES), chance.pick(KEEPS_S), chance.pick(KEYS)
    by_key, is_async = chance.happens(0.7), chance.happens(0.7)
    load = replace(workload.groups[0], once_s=keep_s, once_store=store, once_by_key=by_key, is_async=is_async)
    return replace(workload, groups=(load, *workload.groups[1:]), keys=keys)


def goes(workload: Workload, load: GroupLoad) -> bool:
    """A batch is handled as a whole, and what is rolled back would be a duplicate; and see `witness.py`."""
    return bool(load.once_s) and not (load.batch or load.by_hand or load.timeout_s)


def key_of(message: Message) -> str:
    return message.keys[0]


def note_key(recorder: Recorder, load: GroupLoad, message: Message) -> None:
    """Write down what a store knows the message by."""
    key = key_of(message) if load.once_by_key else message.message_id
    topic = message.properties.get(RETRY_TOPIC, message.topic)
    recorder.history.keys[load.name, message.message_id] = f"{topic} {key}"


class SimulatedStores:
    """The plugin that offers them."""

    def __init__(
        self, recorder: Recorder, chance: Stream, disk_of: Callable[[str], SimDisk], is_healed: Callable[[], bool]
    ) -> None:
        self._recorder, self._chance, self._disk_of, self._is_healed = recorder, chance, disk_of, is_healed
        self._shared: dict[str, float] = {}

    @hookimpl
    def register_dedup_stores(self) -> list[DedupStore]:
        return [_Store(name, self._opened) for name in STORES]

    def _opened(self, name: str, means: DedupMeans) -> RemembersKeys:
        who = self._recorder.who
        keys: RemembersKeys
        match name:
            case "sim-memory":
                keys = MemoryStore().open(means)
            case "sim-sqlite":
                keys = _OnSimDisk(means, lambda: self._disk_of(who))
            case _:
                keys = _Shared(self._shared, self._recorder, self._chance, self._is_flaky(name))
        return _Watched(means.group, keys, self._recorder)

    def _is_flaky(self, name: str) -> Callable[[], bool]:
        return lambda: name == "sim-flaky" and not (self._is_healed() or self._recorder.history.is_calm)


class _Store:
    def __init__(self, name: str, opened: Callable[[str, DedupMeans], RemembersKeys]) -> None:
        self.name, self._opened = name, opened

    def open(self, means: DedupMeans) -> RemembersKeys:
        return self._opened(self.name, means)


class _OnSimDisk(SqliteKeys):
    """The shipped store, on the simulated machine's disk: it outlives the process, and a power cut as far as synced."""

    def __init__(self, means: DedupMeans, disk: Callable[[], SimDisk]) -> None:
        super().__init__(means)
        self._disk = disk

    def _opened(self) -> sqlite3.Connection:
        connection = self._disk().open_database("once")
        for statement in ("PRAGMA synchronous = FULL", _TABLE):
            connection.execute(statement)
        return connection


_TABLE = "CREATE TABLE IF NOT EXISTS handled (key TEXT PRIMARY KEY, until_ms INTEGER NOT NULL) WITHOUT ROWID"


class _Shared:
    """A database of all members."""

    def __init__(
        self, until_s: dict[str, float], recorder: Recorder, chance: Stream, is_flaky: Callable[[], bool]
    ) -> None:
        self._until_s, self._loop, self._chance, self._is_flaky = until_s, recorder.loop, chance, is_flaky

    async def has(self, key: str) -> bool:
        await self._trip()
        found = self._loop.now < self._until_s.get(key, 0.0)
        await self._trip()
        return found

    async def record(self, key: str, keep_ms: int) -> None:
        await self._trip()
        self._until_s[key] = self._loop.now + keep_ms / 1000
        await self._trip()

    async def close(self) -> None:
        """Others use it."""

    async def _trip(self) -> None:
        await asyncio.sleep(self._chance.pick(TAKES_S))
        if self._is_flaky():
            if self._chance.happens(SLOW_RATE):
                await asyncio.sleep(SLOW_S)
            if self._chance.happens(FAIL_RATE):
                raise OSError("the simulated database is away")


class _Watched:
    """A store with a record of what it was asked, and answered."""

    def __init__(self, group: str, keys: RemembersKeys, recorder: Recorder) -> None:
        self._group, self._keys, self._recorder = group, keys, recorder

    async def has(self, key: str) -> bool:
        began = self._recorder.loop.now
        try:
            found = await self._keys.has(key)
        except BaseException:  # border: also where nobody waits any more
            self._recorder.looked(self._group, key, None, began)
            raise
        self._recorder.looked(self._group, key, found, began)
        return found

    async def record(self, key: str, keep_ms: int) -> None:
        began = self._recorder.loop.now
        self._recorder.remembered(self._group, key, None, began)
        try:
            await self._keys.record(key, keep_ms)
        except BaseException:
            self._recorder.remembered(self._group, key, 0.0, began)
            raise
        self._recorder.remembered(self._group, key, keep_ms / 1000, began)

    async def close(self) -> None:
        await self._keys.close()
