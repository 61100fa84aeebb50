"""Files on the real disk, and what a power cut may leave of them: every point of it, not a sample."""

from __future__ import annotations

import itertools
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from framework.net.real_world import RealFiles
from tests.simulation.left_out import left_out

OLD, NEW = b"the old content", b"the new content, which is longer"


def test_a_file_is_replaced_and_read(tmp_path: Path) -> None:
    files, path = RealFiles(), str(tmp_path / "state")
    assert files.read(path) is None
    files.replace(path, OLD)
    files.replace(path, NEW)
    assert files.read(path) == NEW
    assert ["state"] == [each.name for each in tmp_path.iterdir()], "nothing is left beside it"


def test_a_path_is_locked_for_one(tmp_path: Path) -> None:
    files, path = RealFiles(), str(tmp_path / "deep" / "er" / "lock")
    release = files.lock(path)
    assert release is not None
    assert files.lock(path) is None
    release()
    again = files.lock(path)
    assert again is not None
    again()


class Recorded:
    """The system calls of one replacement, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self._watch(monkeypatch, os, "fsync", lambda file: "sync " + ("folder" if _is_folder(file) else "file"))
        self._watch(monkeypatch, Path, "replace", lambda *_: "rename")
        opened = Path.open

        def opening(path: Path, mode: str = "r", **more: Any) -> Any:
            file = opened(path, mode, **more)
            self.calls.append("create")
            write = file.write

            class Noted:
                def __enter__(self) -> Self:
                    return self

                def __exit__(self, *_: object) -> None:
                    file.close()

                @staticmethod
                def write(content: bytes) -> int:
                    self.calls.append("write")
                    return write(content)

                flush, fileno = staticmethod(file.flush), staticmethod(file.fileno)

            return Noted()

        monkeypatch.setattr(Path, "open", opening)

    def _watch(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, word: Any) -> None:
        real = getattr(owner, name)

        def watched(*arguments: Any) -> Any:
            self.calls.append(word(*arguments))
            return real(*arguments)

        monkeypatch.setattr(owner, name, watched)


def _is_folder(file: int) -> bool:
    return Path(f"/proc/self/fd/{file}").is_dir()


def contents_after(calls: list[str]) -> Iterator[bytes | None]:
    """All that the file may hold after a power cut at any point.

    What was written and not synced is there whole, half or not at all; a rename that the folder's sync has not covered
    has happened or not.
    """
    for cut in range(len(calls) + 1):
        beside: list[bytes] = []
        is_renamed: tuple[bool, ...] = (False,)
        for call in calls[:cut]:
            match call:
                case "create":
                    beside = [b""]
                case "write":
                    beside += [NEW[: len(NEW) // 2], NEW]
                case "sync file":
                    beside = beside[-1:]
                case "rename":
                    is_renamed = (False, True)
                case "sync folder":
                    is_renamed = (True,) if True in is_renamed else (False,)
        for renamed, content in itertools.product(is_renamed, beside or [b""]):
            yield content if renamed else OLD


def test_every_power_cut_leaves_the_old_file_or_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(monkeypatch)
    RealFiles().replace(str(tmp_path / "state"), NEW)
    assert ["create", "write", "sync file", "rename", "sync folder"] == recorded.calls
    found = list(contents_after(recorded.calls))
    assert {OLD, NEW} == set(found)
    assert NEW == found[-1], "once it has returned, the new one is there"


def test_without_the_sync_a_power_cut_leaves_something_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with left_out("a file is on the disk before it takes its name"):
        recorded = Recorded(monkeypatch)
        RealFiles().replace(str(tmp_path / "state"), NEW)
    assert {OLD, NEW} != set(contents_after(recorded.calls))


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_whatever_the_umask_files_are_of_this_user_alone(tmp_path: Path, open_umask: None) -> None:
    files, folder = RealFiles(), tmp_path / "deep" / "er"
    release = files.lock(str(folder / "lock"))
    files.replace(str(folder / "state"), OLD)

    assert release is not None
    assert [0o700] * 2 == [mode(folder), mode(folder.parent)]
    assert [0o600] * 2 == [mode(folder / "lock"), mode(folder / "state")]
    release()


def test_what_others_could_read_until_now_they_can_no_more(tmp_path: Path, open_umask: None) -> None:
    path, lock = tmp_path / "state", tmp_path / "lock"
    for each in (path, lock):
        each.write_bytes(OLD)
    release = RealFiles().lock(str(lock))

    assert OLD == RealFiles().read(str(path))
    assert 0o666 == mode(path), "reading changes nothing: it may be Java's"
    RealFiles().replace(str(path), NEW)
    assert [0o600] * 2 == [mode(path), mode(lock)]
    assert release is not None
    release()


def test_a_half_made_file_of_a_process_that_was_killed_is_no_hindrance(tmp_path: Path, open_umask: None) -> None:
    left = tmp_path / f".state.{os.getpid()}.new"
    os.mkfifo(left)
    RealFiles().replace(str(tmp_path / "state"), NEW)

    assert (NEW, 0o600) == ((tmp_path / "state").read_bytes(), mode(tmp_path / "state"))


def made(path: Path, kind: str) -> Path:
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    elif kind == "a folder":
        path.mkdir()
    else:
        path.symlink_to(os.devnull)
    return path


@pytest.mark.parametrize("kind", ["a pipe", "a socket", "a folder", "a device"])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = str(made(tmp_path / "x", kind))

    with pytest.raises(OSError, match=f"x is {kind} and not a file: take it away"):
        RealFiles().read(path)
    with pytest.raises(OSError, match=f"x is {kind} and not a file: take it away"):
        RealFiles().lock(path)
