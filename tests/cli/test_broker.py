"""`framework-app broker`, as a process."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from framework.broker.settings import BrokerSettings
from framework.broker.store.database import open_folder
from framework.cli import main
from framework.cli.commands import broker as broker_command
from framework.cli.exit_codes import ExitCode
from framework.settings.broker_limits import LIMITS
from tests.cli.processes import ROOT, command
from tests.interop import probe
from tests.patience import wait_until


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_listens_and_ends_when_asked(tmp_path: Path, number: signal.Signals) -> None:
    ready_file = tmp_path / "ready"
    with command("broker", "--memory", "--brokers", "2", "--ready-file", str(ready_file), folder=tmp_path) as broker:
        line = broker.until("broker: ready")

        assert f"{line}\n" == ready_file.read_text()
        assert 0 == broker.end(number)

    head, name_server, brokers = line.rsplit(" ", 2)
    assert "broker: ready" == head
    assert name_server.startswith("namesrv=127.0.0.1:")
    assert ["broker-a", "broker-b"] == [each.partition("@")[0] for each in brokers.removeprefix("brokers=").split(",")]
    assert name_server.removeprefix("namesrv=") in brokers


def test_a_folder_or_a_port_that_is_taken_is_73(tmp_path: Path) -> None:
    with command("broker", "--data", "box", folder=tmp_path) as first:
        address = first.until("broker: ready").split("namesrv=")[1].split()[0]

        with command("broker", "--data", "box", folder=tmp_path) as second:
            assert ExitCode.TAKEN == second.end(None)
        with command("broker", "--memory", "--port", address.rpartition(":")[2], folder=tmp_path) as third:
            assert ExitCode.TAKEN == third.end(None)

        assert 0 == first.end()


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["--bind", "fe80::1%nowhere", "--auth", "keys.yaml"], 78, "--bind 'fe80::1%nowhere'"),
        (["--bind", "192.0.2.77", "--auth", "keys.yaml"], 78, "--bind '192.0.2.77'"),
        (["--ready-file", "/nowhere/ready"], 73, "--ready-file '/nowhere/ready': No such file or directory"),
        (["--ready-file", "."], 73, "--ready-file '.': it is there and is no file; name a file that may be replaced"),
        (["--port", "65535", "--brokers", "2"], 2, "--brokers 2"),
    ],
)
def test_what_it_cannot_listen_on_or_write_to_is_named(
    tmp_path: Path,
    words: list[str],
    code: int,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert code == main.run(["broker", "--memory", *words])
    assert reason in capsys.readouterr().err


def test_keys_are_made_for_whoever_asks_and_nobody_else_may_read_them(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    with command("broker", "--memory", "--auth", str(keys), folder=tmp_path) as broker:
        broker.until("broker: ready")
        assert 0 == broker.end()

    assert 0o600 == stat.S_IMODE(keys.stat().st_mode)
    assert {"access_key", "secret_key"} == {line.partition(":")[0] for line in keys.read_text().splitlines()}


@pytest.mark.parametrize(
    ("text", "mode", "reason"),
    [("access_key: a", 0o600, "needs access_key and secret_key"), ("secret_key: a", 0o644, "chmod 600")],
)
def test_keys_that_will_not_do_are_refused(
    tmp_path: Path, text: str, mode: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = tmp_path / "keys.yaml"
    keys.write_text(text)
    keys.chmod(mode)

    assert ExitCode.CONFIGURATION == main.run(["broker", "--memory", "--auth", str(keys)])
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "text", "reason"),
    [
        ("--retention", "0s", "a second at least"),
        ("--retention", "2 weeks", "weeks"),
        ("--disk-limits", "90 85 75", "three rising percentages"),
        ("--disk-limits", "75 85", "three rising percentages"),
        ("--durability", "none", "relaxed"),
    ],
)
def test_figures_that_will_not_do_are_refused(
    option: str, text: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ExitCode.USAGE == main.run(["broker", "--memory", option, text])
    assert reason in capsys.readouterr().err


def test_durability_is_relaxed_by_name_only(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    broker_command.add_options(parser)

    def settings(*words: str) -> BrokerSettings:
        return broker_command._settings(parser.parse_args(["--data", str(tmp_path), *words]))

    assert not settings().is_relaxed
    assert settings("--durability", "relaxed").is_relaxed
    assert settings("--retention", "3h", "--disk-limits", "50 60% 70").kept_ms == 3 * 3_600_000
    for is_relaxed, level in ((False, 2), (True, 1)):
        database = open_folder(tmp_path / "data", is_relaxed=is_relaxed)
        assert (level,) == database.writing.execute("PRAGMA synchronous").fetchone()
        database.close()


def test_other_machines_are_let_in_only_with_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.CONFIGURATION == main.run(["broker", "--memory", "--bind", "0.0.0.0"])
    assert "--auth" in capsys.readouterr().err


def test_a_folder_of_a_newer_version_is_73_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = open_folder(tmp_path / "data")
    database.writing.execute("PRAGMA user_version = 99")
    database.close()

    assert ExitCode.TAKEN == main.run(["broker", "--data", str(tmp_path / "data")])
    assert "newer version (schema 99" in capsys.readouterr().err


def test_with_few_files_it_serves_whom_it_can_and_says_why_not_all(tmp_path: Path) -> None:
    limit = "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24)); "
    program = limit + "from framework.cli.main import run; sys.exit(run(['broker', '--data', 'box']))"
    said = tmp_path / "said"
    with said.open("w") as stream, subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=stream, text=True,
    ) as broker:  # fmt: skip
        assert broker.stdout is not None
        address = broker.stdout.readline().split("namesrv=")[1].split()[0]
        host, _, port = address.rpartition(":")
        connections = [socket.create_connection((host, int(port))) for _ in range(30)]
        wait_until(lambda: "connections limited" in said.read_text(), "the line that says so")
        for each in connections:
            each.close()
        wait_until(lambda: probe.ask(address, probe.GET_CLUSTER)[0] == 0, "an answer with files again")
        broker.terminate()

    assert 0 == broker.returncode
    first, *others = [line for line in said.read_text().splitlines() if "disk nearly full" not in line]
    assert "ulimit -n" in first
    # However many come: one line for those that found no place, one where even that took too many files.
    assert 2 >= len(others)
    assert all("connections refused" in line or "connections not accepted" in line for line in others)


def test_a_limit_on_files_that_is_reached_at_the_start_is_73(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def listen(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("framework.net.real_world.RealNetwork.listen", listen)

    assert ExitCode.TAKEN == main.run(["broker", "--memory"])
    assert "error: [Errno 24] Too many open files; raise the limit (ulimit -n) [FA-B003]\n" in capsys.readouterr().err


def test_limits_are_chosen_by_name() -> None:
    parser = argparse.ArgumentParser()
    broker_command.add_options(parser)
    words = [word for name in LIMITS for word in ("--limit", f"{name}={'2MiB' if LIMITS[name].is_size else 7}")]

    settings = broker_command._settings(parser.parse_args(["--memory", *words]))

    for chosen in LIMITS.values():
        assert getattr(settings, chosen.setting) == (2 << 20 if chosen.is_size else 7)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("connection=7", "did you mean"),
        ("connections", "connections is a whole number, from 1 to 65,536"),
        ("connections=0", "from 1 to 65,536"),
        ("message=4000", "message is a size such as 4MiB, from 1B to 15MiB"),
        ("message=16MiB", "from 1B to 15MiB"),
        ("disk=1GiB", "there are: connections"),
    ],
)
def test_limits_that_will_not_do_are_refused(text: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.USAGE == main.run(["broker", "--memory", "--limit", text])
    assert reason in capsys.readouterr().err
