"""The last line and the code of a stop that no broker confirmed: `run`, `--json`, `--workers`, `dev`."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from framework import Producer
from framework.cli.exit_codes import ExitCode
from tests.cli.processes import PATIENCE_S, command
from tests.patience import wait_until

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
SETTINGS = "app: {handlers: [shop], drain: 5m}\nconsumers: {billing: {start: first}}\n"


def send(name_server: str) -> None:
    async def sending() -> None:
        async with Producer(name_servers=[name_server]) as producer:
            await producer.send("orders", b"1")

    asyncio.run(sending())


@pytest.mark.parametrize(
    "arguments",
    [("run",), ("run", "--json"), ("run", "--workers", "2"), ("run", "--for"), ("dev",)],
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
        began, ended = tmp_path / "began", tmp_path / "ended"
        with ExitStack() as stack:
            for length in (["2s"], ["20s"], ["200s"]) if "--for" in options else ([],):  # a slow machine needs more
                words = (name, "--name-server", box, *options, *length)
                running = stack.enter_context(command(*words, folder=tmp_path))
                wait_until(lambda: began.exists() or running.process.poll() is not None, "a handler", PATIENCE_S)  # noqa: B023
                if began.exists():
                    break
            broker.end(signal.SIGKILL)
            (tmp_path / "release").touch()
            running.wait_until(ended.exists, "the handler's end")
            code = running.end(None if "--for" in options else signal.SIGINT)
    last = running.lines[-1]
    if "--json" in options:
        assert {"handled": 1, "abandoned": 0, "unconfirmed": 1}.items() <= json.loads(last).items()
    elif "--workers" in options:  # while they begin to share, it may be given to both
        assert re.fullmatch("drained: handled=[12] retried=0 dead=0 left=0 unconfirmed=[12]", last), last
    else:
        assert "drained: handled=1 retried=0 dead=0 left=0 unconfirmed=1" == last
    assert ExitCode.ABANDONED == code
