"""The last line and the code of a stop that no broker confirmed: `run`, `--json`, `--workers`, `dev`."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from pathlib import Path

import pytest

from framework import Producer
from framework.cli.exit_codes import ExitCode
from tests.cli.processes import Command, command

SHOP = """
import asyncio
from pathlib import Path

from framework import Message, consumer


@consumer("orders", "billing")
async def bill(order: Message) -> None:
    Path("began").touch()
    while not Path("release").exists():
        await asyncio.sleep(0.02)
    Path("ended").touch()
"""
SETTINGS = "app: {handlers: [shop], drain: 20s}\nconsumers: {billing: {start: first}}\n"


def send(name_server: str) -> None:
    async def sending() -> None:
        async with Producer(name_servers=[name_server]) as producer:
            await producer.send("orders", b"1")

    asyncio.run(sending())


def wait_for(path: Path, running: Command) -> None:
    while not path.exists():
        assert running.process.poll() is None, f"ended with {running.process.returncode} before {path.name}"
        time.sleep(0.02)  # between two looks at another process


@pytest.mark.parametrize(
    "arguments",
    [("run",), ("run", "--json"), ("run", "--workers", "2"), ("run", "--for", "8s"), ("dev",)],
    ids=" ".join,
)
def test_a_broker_killed_beside_a_handler_makes_it_unconfirmed_and_75(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "framework-app.yaml").write_text(SETTINGS)
    with command("broker", "--data", str(tmp_path / "box"), folder=tmp_path) as broker:
        box = broker.until("broker: ready").split("namesrv=")[1].split()[0]
        send(box)
        name, *options = arguments
        with command(name, "--name-server", box, *options, folder=tmp_path) as running:
            wait_for(tmp_path / "began", running)
            broker.end(signal.SIGKILL)
            (tmp_path / "release").touch()
            wait_for(tmp_path / "ended", running)
            code = running.end(None if "--for" in options else signal.SIGINT)
    last = running.lines[-1]
    if "--json" in options:
        assert {"handled": 1, "abandoned": 0, "unconfirmed": 1}.items() <= json.loads(last).items()
    else:
        assert "drained: handled=1 retried=0 dead=0 left=0 unconfirmed=1" == last
    assert ExitCode.ABANDONED == code
