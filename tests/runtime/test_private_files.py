"""Everything that a running application or the box keeps is of this user alone, whatever the umask says."""

from __future__ import annotations

import ast
import asyncio
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from framework_audit.plugin import Audit, AuditSettings

import framework
from framework.cli.commands import broker
from framework.errors import ConfigurationError, StoreError
from framework.hooks.builtin.dedup.once_sqlite import SqliteKeys
from framework.hooks.builtin.progress.progress_local import LocalStore
from framework.model.queue import MessageQueue
from framework.net.control.serving import ControlSocket
from framework.net.real_world import RealFiles, RealWatchman
from framework.services.offsets.local_offsets import LocalOffsets, OffsetFiles
from tests.broker.store_lab import folder_lab

QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


async def in_thread(job: Any) -> Any:
    return job()


def means(folder: Path) -> Any:
    return SimpleNamespace(
        group="billing", folder=str(folder), files=RealFiles(), in_thread=in_thread, now_ms=lambda: 1_000
    )


def offsets_in(folder: Path, java: str = "") -> LocalOffsets:
    nowhere: Any = None
    brokers: Any = SimpleNamespace(min_offset=None, max_offset=None, search_offset=None)
    world: Any = SimpleNamespace(files=RealFiles(), workers=SimpleNamespace(run=in_thread))
    return LocalOffsets(OffsetFiles(str(folder / "app"), "cache", java), brokers, world, nowhere)


async def kept(tmp_path: Path) -> None:
    """By everything that keeps something, each in a folder that is not there yet."""
    offsets = offsets_in(tmp_path / "broadcasting" / "deep")
    offsets.open()
    offsets._world.files.replace(offsets._place.files[0], b"x")  # as it saves, without its loop
    store = LocalStore().open(means(tmp_path / "progress" / "deep"))
    await store.write(QUEUE, await store.take(QUEUE, b"x"), b"y")
    keys = SqliteKeys(means(tmp_path / "once" / "deep"))
    await keys.record("a", 9_000)
    box = folder_lab(tmp_path / "box" / "deep" / "data")
    box.write("t", 0, b"a")
    broker._put(tmp_path / "a.ready", "ready\n")
    audit = Audit(AuditSettings(file=str(tmp_path / "audit.jsonl")))
    audit._lines.append("{}")
    audit.app_stopping()
    control = ControlSocket(tmp_path / "control", lambda _: {}, RealWatchman())
    assert control.open()
    found = modes_below(tmp_path)
    await keys.close()
    box.store.close()
    offsets.close()
    control.close()

    assert {"a.ready", "audit.jsonl", "control"} < set(found)
    assert {"broadcasting", "progress", "once", "box"} < set(found)
    wanted = {name: 0o700 if stat.S_ISDIR(mode) else 0o600 for name, mode in found.items()}
    assert wanted == {name: stat.S_IMODE(mode) for name, mode in found.items()}
    assert sum(map(stat.S_ISREG, found.values())) >= 12


def modes_below(folder: Path) -> dict[str, int]:
    return {path.relative_to(folder).as_posix(): path.lstat().st_mode for path in folder.rglob("*")}


def test_whatever_the_umask_all_is_of_this_user_alone(tmp_path: Path) -> None:
    asyncio.run(kept(tmp_path))


def pipe(path: Path) -> None:
    os.mkfifo(path)


def bound(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


@pytest.mark.parametrize("make", [pipe, bound, Path.mkdir])
@pytest.mark.parametrize("which", ["lock", "first", "second", "java"])
def test_an_offset_file_that_is_no_file_is_an_error_at_the_start(tmp_path: Path, which: str, make: Any) -> None:
    """A pipe was waited for in a system call, so that the process heard no signal."""
    folder, java = tmp_path / "app", tmp_path / "java"
    place = offsets_in(tmp_path)._place
    path = Path(
        {"lock": place.lock, "first": place.files[0], "second": place.files[1], "java": f"{java}/cache/offsets.json"}[
            which
        ]
    )
    path.parent.mkdir(parents=True)
    make(path)

    for _ in range(2):  # the second time it is not "another process", whose lock was left
        with pytest.raises(
            ConfigurationError, match=f"broadcasting group 'cache'.* {path} is .* and not a file: take it"
        ):
            offsets_in(tmp_path, str(java)).open()
    assert folder == Path(place.folder)


def test_progress_and_keys_that_are_no_files_are_errors_too(tmp_path: Path) -> None:
    async def story() -> None:
        store = LocalStore().open(means(tmp_path))
        os.mkfifo(tmp_path / f"{QUEUE.topic}@{QUEUE.broker}@{QUEUE.number}.progress")
        with pytest.raises(StoreError, match="is a pipe and not a file"):
            await store.read(QUEUE)
        keys = SqliteKeys(means(tmp_path))
        os.mkfifo(keys._path)
        with pytest.raises(StoreError, match="is a pipe and not a file"):
            await keys.has("a")

    asyncio.run(story())


@pytest.mark.parametrize("name", ["broker.db", "broker.lock"])
def test_a_data_folder_with_a_pipe_in_a_file_s_place_is_refused(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)

    with pytest.raises(StoreError, match="is a pipe and not a file"):
        folder_lab(tmp_path)


# Who makes files or folders without `private_files`, and why that may be.
MAKERS = {
    "net/real_world.py": "after private_files.make_file",
    "cli/commands/broker.py": "after private_files.make_file, and a key file by O_EXCL and 0600",
    "cli/commands/new.py": "a user's own sources",
    "cli/transfer.py": "by O_EXCL and 0600",
    "net/control/places.py": "one folder, 0700",
    "private_files.py": "itself",
}


def test_nothing_else_makes_files() -> None:
    root = Path(framework.__file__).parent
    found = set()
    for path in root.rglob("*.py"):
        name = path.relative_to(root).as_posix()
        if name.startswith("testing/"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _makes(node):
                found.add(name)

    assert set(MAKERS) == found


def _makes(call: ast.Call) -> bool:
    name = ast.unparse(call.func).rpartition(".")[2]
    texts = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    if name == "open":
        given = ast.unparse(call)
        opens_private = "private_files" in given
        return not opens_private and (
            any(set(each) & set("wxa") and len(each) <= 3 for each in texts) or "O_CREAT" in given
        )
    return name in {"mkdir", "makedirs", "write_text", "write_bytes", "touch"}
