"""`dev` as somebody sees it who has just begun: the banner, the port, a reload, a mistake."""

from __future__ import annotations

import argparse
import asyncio
import re
import shlex
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.cli.commands import dev
from framework.cli.exit_codes import ExitCode
from tests.cli.processes import Errors, command
from tests.ports import free_port

Capture = pytest.CaptureFixture[str]
ORDERS = """
from dataclasses import dataclass

from framework import consumer


@dataclass
class Order:
    number: str
    cents: int


@consumer("orders", "billing", tags="paid || free")
async def bill(order: Order) -> None:
    print("billed", order.cents)
"""
SLOW = """
import asyncio

from framework import consumer


@consumer("orders", "billing")
async def bill(order: bytes) -> None:
    print("slow", flush=True)
    await asyncio.sleep(60)
"""
STOCK = """

@consumer("stock", "shelves", orderly=True)
def count(line: str) -> None: ...
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "orders.py").write_text(ORDERS)
    return tmp_path


@pytest.fixture
def taken() -> Iterator[int]:
    """A port of this machine that somebody listens at."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def test_the_command_of_the_banner_sends_a_message_that_is_handled(folder: Path, capfd: Capture) -> None:
    """Copied as it stands, from the first start on; and that start has nothing to say beside."""
    with command("dev", "orders.py", folder=folder) as running:
        where = running.until("ready: namesrv=").partition("=")[2]
        banner = [*running.lines]
        said = capfd.readouterr().err
        send = next(line for line in banner if line.startswith("send: "))
        _, *words = shlex.split(send.removeprefix("send: "))
        with command(*words, folder=folder) as sending:
            assert 0 == sending.end(None)
        assert "billed 1" == running.line()
        handled = running.line()
        assert 0 == running.end(signal.SIGINT)

    assert [
        f"cluster: built-in broker at {where}, in memory",
        f"""send: framework-app send orders '{{"number": "a", "cents": 1}}' --tag paid --name-server {where}""",
        "topic   filter        group    mode        concurrency  retries  handler",
        "orders  paid || free  billing  concurrent           20       16  bill",
        f"ready: namesrv={where}",
    ] == banner
    assert re.fullmatch(r"handled orders \w+ group=billing", handled), handled
    assert "drained: handled=1 retried=0 dead=0 left=0" == running.lines[-1]
    assert "" == said


def test_the_command_of_the_banner_names_a_namespace_that_was_an_option(folder: Path) -> None:
    """Without it the message goes to another tenant's topic, and no handler gets it."""
    with command("dev", "orders.py", "--set", "cluster.namespace=shop", folder=folder) as running:
        send = running.until("send: ")
        running.until("ready: ")
        _, *words = shlex.split(send.removeprefix("send: "))
        with command(*words, folder=folder) as sending:
            assert 0 == sending.end(None)
        assert "billed 1" == running.line()
        running.line()
        assert 0 == running.end(signal.SIGINT)


def test_what_the_listener_says_at_the_start_is_no_line_of_the_banner(folder: Path, capfd: Capture) -> None:
    """It was said before logging was set up: on stdout, in a form of its own."""
    (folder / "framework-app.yaml").write_text(
        f'observe: {{ listen: "127.0.0.1:{free_port()}" }}\nlogging: {{ format: json }}\n'
    )
    with command("dev", "orders.py", folder=folder) as running:
        running.until("ready: ")
        assert running.lines[0].startswith("cluster: ")
        assert 0 == running.end(signal.SIGINT)

    assert '"event": "listener opened"' in capfd.readouterr().err


def test_a_port_stays_over_changes_and_starts_and_new_consumers_are_shown(folder: Path, capfd: Capture) -> None:
    port, errors = free_port(), Errors(capfd)
    with command("dev", "orders.py", "--port", str(port), folder=folder) as running:
        assert running.until("ready: ").endswith(f":{port}")
        (folder / "orders.py").write_text(ORDERS + STOCK)
        running.until("topic ")
        running.until("orders  paid || free  billing  concurrent")
        assert re.fullmatch(r"stock +\* +shelves +orderly +20 +unlimited +count", running.line())
        errors.until(running, "application restarted")
        assert 0 == running.end(signal.SIGINT)
    assert 1 == sum(line.startswith("ready: ") for line in running.lines)
    assert "files=['orders.py']" in errors.text

    with command("dev", "orders.py", "--port", str(port), folder=folder) as running:
        assert running.until("ready: ").endswith(f":{port}")
        assert 0 == running.end(signal.SIGINT)


def test_a_port_that_is_taken_is_73_and_named(folder: Path, taken: int, capfd: Capture) -> None:
    with command("dev", "orders.py", "--port", str(taken), folder=folder) as running:
        assert ExitCode.TAKEN == running.end(None)

    assert [
        f"error: 127.0.0.1:{taken}: another process listens there; end it, or choose another port [FA-B002]",
        "hint: framework-app explain FA-B002",
    ] == capfd.readouterr().err.splitlines()
    assert [] == running.lines


def test_without_a_port_the_first_usual_one_that_is_free_is_taken(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def started(*ports: int) -> int:
        monkeypatch.setattr(dev, "PORTS", ports)
        box = dev._BuiltIn(argparse.Namespace(box_plugin=[], port=None))
        broker = await box._started()
        try:
            return int(broker.address.rpartition(":")[2])
        finally:
            await broker.stop()

    free = free_port()
    assert free == asyncio.run(started(taken, free))
    assert asyncio.run(started(taken)) not in {taken, 0}


def test_the_usual_ports_leave_room_for_the_ports_two_below() -> None:
    assert 9876 == dev.PORTS[0]
    assert not set(dev.PORTS) & {port - 2 for port in dev.PORTS}


@pytest.mark.parametrize("option", ["--port=9876", "--box-plugin=audit"])
def test_what_is_for_the_built_in_broker_is_refused_beside_a_cluster(option: str, folder: Path, capfd: Capture) -> None:
    with command("dev", "orders.py", option, "--name-server", "127.0.0.1:9", folder=folder) as running:
        assert ExitCode.USAGE == running.end(None)

    assert f"{option.partition('=')[0]} is for the built-in broker" in capfd.readouterr().err


def test_an_error_in_the_first_start_is_shown_and_the_next_change_starts_again(folder: Path, capfd: Capture) -> None:
    """As after a reload: whoever writes the first handler makes mistakes, and saves again."""
    (folder / "orders.py").write_text(ORDERS + "\ndef broken(:\n")
    errors = Errors(capfd)
    with command("dev", "orders.py", folder=folder) as running:
        errors.until(running, "the next start waits for a changed file")
        (folder / "orders.py").write_text(ORDERS)
        running.until("ready: ")
        assert 0 == running.end(signal.SIGINT)

    said, hint = errors.text.splitlines()[:2]
    assert hint.startswith("hint: framework-app explain ")
    assert "orders.py:17: importing orders: invalid syntax" in said


def test_a_script_that_waits_for_the_end_of_work_is_told_of_an_error_by_the_code(folder: Path) -> None:
    (folder / "orders.py").write_text(ORDERS + "\ndef broken(:\n")
    with command("dev", "orders.py", "--until-idle", folder=folder) as running:
        assert ExitCode.CONFIGURATION == running.end(None)


def test_an_edit_that_is_wrong_is_said_by_the_restart_alone(folder: Path, capfd: Capture) -> None:
    """A process that reloads its settings by itself would say it as well, while it ends."""
    (folder / "orders.py").write_text(SLOW)
    settings, port, errors = folder / "framework-app.yaml", free_port(), Errors(capfd)
    settings.write_text("app: {drain: 3s}\n")
    with command("dev", "orders.py", "--port", str(port), folder=folder) as running:
        running.until("ready: ")
        send = ("send", "orders", "1", "--name-server", f"127.0.0.1:{port}")
        with command(*send, folder=folder) as sending:
            assert 0 == sending.end(None)
        running.until("slow")
        settings.write_text("app: {drain: 3s, nmae: x}\n")
        errors.until(running, "the next start waits for a changed file")
        running.end(signal.SIGINT)

    assert 1 == errors.text.count("unknown key 'nmae' in app")
    assert "not reloaded" not in errors.text
