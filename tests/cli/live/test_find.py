"""Which running application a command is about: the only one or the named one; else a list, or what to do."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from framework.cli import main
from framework.cli.exit_codes import ExitCode
from framework.cli.live import find
from tests.cli.live.played import Played, listening, picture, worker

Place = Callable[..., Played]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Puts an application where one would be looked for."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.delenv("FRAMEWORK_APP_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        short = Path(stack.enter_context(tempfile.TemporaryDirectory()))  # a socket's path has 107 bytes at most
        monkeypatch.setattr(tempfile, "tempdir", str(short))
        folder = short / f"framework-app-{os.geteuid()}"
        folder.mkdir(mode=0o700)

        def put(name: str, **about: object) -> Played:
            answers = {"health": {"worker": 0, "reasons": [], "phase": "running"}, "snapshot": worker(picture())}
            return stack.enter_context(
                listening(folder / f"{name}-1.sock", Played(**answers, about={"name": name, "process": 1, **about}))
            )

        yield put


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main.run(list(words))
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_only_one_is_meant_and_is_asked_one_thing(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    shop = place("shop")
    assert (ExitCode.CLEAN, "live\n", "") == told(capsys, "health")
    assert [{"ask": "health", "ready": False}] == [each for each in shop.asked if each]


def test_of_several_it_is_the_one_that_was_named_else_they_are_listed(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop, desk = place("shop", config=str(tmp_path / "shop.yaml")), place("desk", config=str(tmp_path / "desk.yaml"))

    code, out, error = told(capsys, "snapshot")
    assert (ExitCode.USAGE, "") == (code, out)
    first, *rows = error.splitlines()
    assert "framework-app snapshot: 2 applications run; choose one:" == first
    assert rows[1].endswith(" [FA-U005]")
    rows[1] = rows[1].removesuffix(" [FA-U005]")
    assert [f"desk, process 1, {tmp_path}/desk.yaml", f"shop, process 1, {tmp_path}/shop.yaml"] == [
        row.partition(".sock    ")[2] for row in rows
    ]
    code, _, error = told(capsys, "snapshot", "--name", "dest")
    assert ExitCode.UNREACHABLE == code
    assert "no application of name dest runs here" in error
    assert "; these run: desk, shop [FA-U004]" in error
    for words in (("--name", "desk"), ("--config", "desk.yaml"), ("--socket", rows[0].split()[1])):
        assert ExitCode.CLEAN == told(capsys, "snapshot", *words)[0]
    assert [3, 0] == [sum(each["ask"] == "snapshot" for each in app.asked) for app in (desk, shop)]


def test_a_list_of_many_has_six_lines(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(9):
        place(f"shop-{number}")

    lines = told(capsys, "snapshot")[2].splitlines()
    assert 6 == len(lines)
    assert lines[-1].startswith("  and 5 more; all: ls ")


def test_the_settings_of_this_folder_decide_between_several(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place("desk", config=str(tmp_path / "desk.yaml"))
    shop = place("shop", config=str(tmp_path / "framework-app.yaml"))
    assert ExitCode.CLEAN == told(capsys, "health")[0]
    assert any(each["ask"] == "health" for each in shop.asked)
    monkeypatch.setenv("FRAMEWORK_APP_CONFIG", "elsewhere.yaml")
    assert ExitCode.USAGE == told(capsys, "health")[0]


def test_a_parent_without_workers_says_itself_who_it_is(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place("shop")
    place("desk", workers=[{"worker": 0, "error": "it is starting"}])
    assert "desk, process 1" in told(capsys, "snapshot")[2]


def test_where_none_runs_the_way_out_is_said(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a killed process left behind is nobody."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(f"{tempfile.gettempdir()}/framework-app-{os.geteuid()}/dead-7.sock")
    code, _, error = told(capsys, "stacks")
    assert ExitCode.UNREACHABLE == code
    assert "no application runs here as this user; start one with `framework-app run`" in error
    code, out, _ = told(capsys, "health")
    assert (ExitCode.FAILED, True) == (code, out.startswith("not live: no application runs here"))
    assert "of name desk runs" in told(capsys, "stacks", "--name", "desk")[2]
    code, _, error = told(capsys, "stacks", "--socket", str(tmp_path / "x.sock"))
    assert ExitCode.UNREACHABLE == code
    assert f"no application listens at {tmp_path}/x.sock" in error
    assert ExitCode.UNREACHABLE == told(capsys, "stacks", "--socket", "x" * 200)[0]


def test_a_path_of_the_settings_is_found_by_them(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "framework-app.yaml").write_text("app: {name: shop, control: control.sock}\n")
    (tmp_path / "off.yaml").write_text('app: {control: ""}\n')
    (tmp_path / "wrong.yaml").write_text("app: {nam: x}\n")
    with listening(tmp_path / "control.sock", Played(snapshot=worker(picture()))):
        assert ExitCode.CLEAN == told(capsys, "snapshot")[0]
        assert ExitCode.CLEAN == told(capsys, "snapshot", "--config", "framework-app.yaml")[0]
        code, _, error = told(capsys, "snapshot", "--config", "off.yaml")
        assert (ExitCode.UNREACHABLE, True) == (code, 'app.control is ""' in error)
        code, _, error = told(capsys, "snapshot", "--config", "wrong.yaml")
        assert (ExitCode.CONFIGURATION, True) == (code, "nam" in error)


def test_a_process_that_stands_still_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one that was stopped: the system connects for it, and nobody answers."""
    monkeypatch.setattr(find, "SECONDS", 0.1)
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(tmp_path / "a.sock"))
        stopped.listen()
        code, out, _ = told(capsys, "health", "--json", "--socket", str(tmp_path / "a.sock"))
    assert ExitCode.FAILED == code
    assert "no answer within 0.1 s: the process is stopped" in json.loads(out)["reasons"][0]
