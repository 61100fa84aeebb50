"""Power cuts under the real store: a file system that notes down every write and sync, and what any moment leaves.

At a cut each file keeps what its last sync made durable, and any part of what was written since: whole, torn at a
sector's edge, or not at all. The store runs on apsw's SQLite here, since the standard library cannot take a file
system of ours; what a cut leaves is opened by the store as it is.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from framework.broker.store.database import FILE_NAME, open_given
from framework.broker.store.writer import Transaction
from framework.errors import StoreError
from tests.broker.store_lab import Lab, fake_record, folder_lab

SECTOR = 512
CHECKPOINT_PAGES = 20  # many checkpoints in a short run


class Written(NamedTuple):
    """Some bytes of a file; None as bytes: the file was cut off at that place."""

    name: str
    at: int
    data: bytes | None


class Synced(NamedTuple):
    name: str


class Deleted(NamedTuple):
    name: str


class Told(NamedTuple):
    """Whoever sent these heard that they are stored: queue number, first offset, texts."""

    number: int
    offset: int
    texts: tuple[bytes, ...]


Event = Written | Synced | Deleted | Told


class RecordingFiles(apsw.VFS):
    """SQLite's own file system, with a log."""

    def __init__(self, name: str) -> None:
        self.events: list[Event] = []
        self.name = name
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _RecordingFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.events.append(Deleted(Path(filename).name))
        super().xDelete(filename, syncdir)


class _RecordingFile(apsw.VFSFile):
    def __init__(self, files: RecordingFiles, name: Any, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._events = files.events
        self._name = Path(path or "temporary").name
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._events.append(Written(self._name, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._events.append(Written(self._name, newsize, None))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._events.append(Synced(self._name))
        super().xSync(flags)


class _Connection:
    """apsw's connection, as far as the store uses the standard library's."""

    isolation_level: str | None = None

    def __init__(self, path: Path, files: RecordingFiles) -> None:
        self._inner = apsw.Connection(str(path), vfs=files.name)

    def execute(self, sql: str, values: Any = ()) -> Any:
        return self._inner.execute(sql, values)

    def executemany(self, sql: str, rows: Any) -> Any:
        return self._inner.executemany(sql, rows)

    def executescript(self, sql: str) -> Any:
        return self._inner.execute(sql)

    def setlimit(self, category: int, limit: int) -> int:
        return self._inner.limit(category, limit)

    @property
    def in_transaction(self) -> bool:
        return self._inner.in_transaction

    @property
    def total_changes(self) -> int:
        return self._inner.total_changes()

    def close(self) -> None:
        self._inner.close()


def recorded(folder: Path, seed: int, groups: int) -> list[Event]:
    """What a broker's store did to its files while batches came in, with what it told their senders."""
    files = RecordingFiles(f"recording-{os.getpid()}-{seed}")
    chance = random.Random(seed)
    opened: Any = _Connection(folder / FILE_NAME, files)
    lab = Lab(open_given(lambda: opened))
    opened.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}").fetchall()
    count = 0
    for _ in range(groups):
        for _ in range(chance.randrange(1, 5)):  # those that share a commit
            size = chance.randrange(1, 5)
            number = chance.randrange(3)
            texts = tuple(
                b"%d/%d/%d " % (count, i, size) + chance.randbytes(chance.randrange(10, 900)) for i in range(size)
            )
            count += 1
            _send(lab, files, number, texts)
        lab.timers.turn()
    lab.store.close()
    return files.events


def _send(lab: Lab, files: RecordingFiles, number: int, texts: tuple[bytes, ...]) -> None:
    def change(transaction: Transaction) -> int:
        stored = [transaction.append("broker-a", "t", number, fake_record(text), 0) for text in texts]
        return stored[0].offset

    def told(offset: int, error: Exception | None) -> None:
        assert error is None, error
        files.events.append(Told(number, offset, texts))

    lab.store.writer.submit(change, told)


def left(events: list[Event], cut: int, chance: random.Random) -> tuple[dict[str, bytes], list[Told]]:
    """The files after a power cut in front of an event, and everything that somebody had been told by then."""
    durable: dict[str, bytearray] = {}
    pending: dict[str, list[Written]] = {}
    told: list[Told] = []
    for event in events[:cut]:
        match event:
            case Told():
                told.append(event)
            case Synced(name):
                for written in pending.pop(name, []):
                    _put(durable, written)
            case Deleted(name):
                durable.pop(name, None)
                pending.pop(name, None)
            case Written():
                pending.setdefault(event.name, []).append(event)
    for name in sorted(pending):
        for written in pending[name]:
            fate = chance.random()
            if fate < 0.5:
                _put(durable, written)
            elif fate < 0.6 and written.data is not None:
                torn = chance.randrange(0, len(written.data) + 1, SECTOR)
                _put(durable, written._replace(data=written.data[:torn]))
    return {name: bytes(data) for name, data in durable.items() if not name.endswith("-shm")}, told


def _put(files: dict[str, bytearray], written: Written) -> None:
    data = files.setdefault(written.name, bytearray())
    if written.data is None:
        del data[written.at :]
        return
    if len(data) < written.at:
        data.extend(bytes(written.at - len(data)))
    data[written.at : written.at + len(written.data)] = written.data


def wrongs(folder: Path, files: dict[str, bytes], told: list[Told]) -> Iterator[str]:
    """Open what a cut has left as the next broker would, and say what it broke of the promises."""
    for name, data in files.items():
        (folder / name).write_bytes(data)
    try:
        lab = folder_lab(folder)
    except StoreError as error:
        yield f"unreadable: {error}"
        return
    try:
        there = {number: lab.texts("t", number, count_max=1 << 30) for number in range(3)}
    except StoreError as error:
        yield f"unreadable: {error}"
        return
    finally:
        lab.store.close()
    for each in told:
        found = tuple(there[each.number][each.offset : each.offset + len(each.texts)])
        if found != each.texts:
            yield f"lost: {len(each.texts)} messages from offset {each.offset} of queue {each.number}"
    for number, texts in there.items():
        yield from _torn(number, texts)


def _torn(number: int, texts: list[bytes]) -> Iterator[str]:
    """Batches stand whole in a queue, one behind the other."""
    at = 0
    while at < len(texts):
        batch, index, size = (int(part) for part in texts[at].partition(b" ")[0].split(b"/"))
        expected = [b"%d/%d/%d" % (batch, i, size) for i in range(size)]
        if index != 0 or [text.partition(b" ")[0] for text in texts[at : at + size]] != expected:
            yield f"torn: batch {batch} at offset {at} of queue {number}"
        at += size


def cut_often(folder: Path, *, seed: int, cuts: int, groups: int = 60) -> dict[str, int]:
    """So many power cuts in one run of the store, at each moment of it at least once where there are enough."""
    source = folder / "recorded"
    source.mkdir()
    events = recorded(source, seed, groups)
    chance = random.Random(seed)
    figures = {"cuts": cuts, "moments": len(events), "told": 0, "lost": 0, "torn": 0, "unreadable": 0}
    for i in range(cuts):
        cut = i % (len(events) + 1) if cuts > len(events) else chance.randrange(len(events) + 1)
        files, told = left(events, cut, chance)
        target = folder / "left"
        target.mkdir(exist_ok=True)
        for wrong in wrongs(target, files, told):
            figures[wrong.partition(":")[0]] += 1
        figures["told"] += len(told)
        for path in target.iterdir():
            path.unlink()
    return figures
