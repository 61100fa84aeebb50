"""Where control sockets lie when nobody says: a folder of the user's own, and a name of the process's own."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from pathlib import Path

import pytest

from framework.net.control.places import default_place, folders, sockets


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_lies_in_the_users_runtime_folder_else_with_temporary_files(temporary: Path) -> None:
    runtime = temporary / "run"
    runtime.mkdir()

    assert runtime / f"framework-app/shop-{os.getpid()}.sock" == default_place(
        "shop", {"XDG_RUNTIME_DIR": str(runtime)}
    )
    other = temporary / f"framework-app-{os.geteuid()}"
    assert other / f"shop-{os.getpid()}.sock" == default_place("shop", {})
    assert 0o700 == stat.S_IMODE(other.stat().st_mode)
    assert other == default_place("shop", {"XDG_RUNTIME_DIR": "/nonexistent/run"}).parent
    assert [other] == folders({"XDG_RUNTIME_DIR": "not/absolute"})


@pytest.mark.parametrize(
    ("name", "file"), [("order desk/../x", "order_desk_.._x"), ("...", "app"), ("x" * 90, "x" * 40), ("ü", "_")]
)
def test_any_name_makes_a_file_of_the_folder(temporary: Path, name: str, file: str) -> None:
    assert f"{file}-{os.getpid()}.sock" == default_place(name, {}).name


def test_two_applications_of_one_name_and_number_do_not_meet(temporary: Path) -> None:
    """As in two containers that share the folder: both are process 1."""
    first = default_place("shop", {})
    with socket.socket(socket.AF_UNIX) as heard:
        heard.bind(str(first))
        heard.listen()
        assert f"shop-{os.getpid()}-2.sock" == default_place("shop", {}).name
    assert first == default_place("shop", {})


def test_what_killed_processes_left_behind_is_swept_away(temporary: Path) -> None:
    folder = default_place("shop", {}).parent
    for name in ("dead-1.sock", "dead-1.sock.0", "alive-2.sock", "begins-3.sock~"):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(folder / name))
    (folder / "kept.sock").write_text("no socket")
    with socket.socket(socket.AF_UNIX) as heard:
        (folder / "alive-2.sock").unlink()
        heard.bind(str(folder / "alive-2.sock"))
        heard.listen()
        default_place("shop", {})

    assert ["alive-2.sock", "begins-3.sock~", "kept.sock"] == sorted(each.name for each in folder.iterdir())
    assert ["alive-2.sock", "kept.sock"] == [each.name for each in sockets({})]


@pytest.mark.parametrize("trap", ["others may write", "a link"])
def test_a_folder_that_is_not_the_users_own_is_refused(temporary: Path, trap: str) -> None:
    """In /tmp anybody may have made it first, to have the sockets in his hands."""
    folder = temporary / f"framework-app-{os.geteuid()}"
    if trap == "a link":
        (temporary / "elsewhere").mkdir()
        folder.symlink_to("elsewhere")
    else:
        folder.mkdir()
        folder.chmod(0o777)

    with pytest.raises(PermissionError, match="only this user may write"):
        default_place("shop", {})
    assert [] == list(sockets({}))
