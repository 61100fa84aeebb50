"""A shop to look at: a broker in the box, an application with a member that is slow and one that fails, a dashboard.

Everything is a process of its own with folders of its own; whatever was started is ended.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from framework import Message, Producer, SyncProducer
from framework.net.control.asking import ask_all
from tests.cli.processes import PATIENCE_S, Command, command
from tests.patience import wait_until

SHOP = """
import asyncio

from framework import Drop, Message, RetryLater, consumer


@consumer("orders", "billing")
async def bill(order: Message) -> None:
    if b"no card" in order.body:
        raise KeyError("card")
    if b"slow" in order.body:
        await asyncio.sleep(3600)


@consumer("orders", "shipping")
async def ship(order: Message) -> None:
    if b"no address" in order.body:
        raise ValueError("address <b>missing</b>")
    await asyncio.sleep(0.002)


@consumer("parcels", "tracking", orderly=True)
async def track(parcel: Message) -> None: ...
"""
HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>{{7*7}}\u202e\x00\x1b[31m'


@dataclass
class Scene:
    """Where things are, and the address that opens the dashboard."""

    name_server: str
    url: str
    token: str
    dashboard: Command
    folder: Path

    @property
    def login(self) -> str:
        return f"{self.url}#{self.token}"


async def _send(name_server: str) -> None:
    async with Producer(name_servers=[name_server]) as producer:
        for number in range(120):
            body = {
                "number": number,
                "note": "no card" if number % 4 == 0 else "no address" if number % 30 == 7 else "",
            }
            await producer.send(
                Message(
                    "orders", json.dumps(body).encode(), keys=(f"order-{number}",), tags="paid" if number % 2 else "new"
                )
            )
        await producer.send(
            Message("orders", b'{"note": "slow", "card": "<script>alert(3)</script>"}', keys=("slow-1",))
        )
        hostile = {"note": "no card", "hostile": HOSTILE}
        properties = {"hostile": "<script>alert(4)</script>"}
        await producer.send(
            Message("orders", json.dumps(hostile).encode(), keys=("<svg/onload=alert(5)>",), properties=properties)
        )
        for number in range(20):
            await producer.send(Message("parcels", f"parcel {number}".encode(), keys=(f"parcel-{number}",)))


def send_first(name_server: str) -> None:
    """Topics of a real cluster are there when something was sent to them."""
    with SyncProducer(name_servers=[name_server]) as producer:
        for topic in ("orders", "parcels"):
            producer.send(Message(topic, b"first"))


def send(name_server: str) -> None:
    asyncio.run(_send(name_server))


def dashboard_of(process: Command) -> tuple[str, str]:
    """Its address and its token."""
    ready = json.loads(process.line())
    assert "ready" == ready["event"]
    return ready["url"], ready["token"]


def _wait_until_ready(folder: Path, count: int) -> None:
    def are_ready() -> bool:
        paths = dict(enumerate(folder.glob("*.sock")))
        answers = ask_all(paths, {"ask": "health", "ready": True}, 6.0).values()
        ready = [each for each in answers if not isinstance(each, Exception) and each.get("reasons") == []]
        return count == len(ready)

    wait_until(are_ready, f"{count} applications", PATIENCE_S)


@contextmanager
def scene(folder: Path, *options: str, retries: int = 0, name_server: str | None = None) -> Iterator[Scene]:
    """`options`: of the dashboard. `name_server`: of a cluster that is there; without one, a box is started."""
    (folder / "shop.py").write_text(SHOP)
    settings = {
        "app": {"name": "shop", "handlers": ["shop"]},
        "cluster": {"name_servers": ["127.0.0.1:9"]},
        "consumers": {
            "billing": {"concurrency": 8, "timeout": "30m", "max_retries": retries},
            "shipping": {"max_retries": retries},
        },
    }
    (folder / "framework-app.yaml").write_text(json.dumps(settings))
    environment = {"XDG_RUNTIME_DIR": str(folder), "TMPDIR": str(folder)}
    with ExitStack() as stack:
        if name_server is None:
            broker = command("broker", "--memory", "--port", "0", folder=folder, environment=environment)
            found = re.search(r"namesrv=(\S+)", stack.enter_context(broker).until("broker: ready"))
            assert found is not None
            name_server = found[1]
        else:
            send_first(name_server)
        for _ in range(2):
            app = command("run", "--json", "--name-server", name_server, folder=folder, environment=environment)
            stack.enter_context(app)
        _wait_until_ready(folder / "framework-app", 2)
        send(name_server)
        arguments = ("dashboard", "--listen", "127.0.0.1:0", "--json", "--name-server", name_server, *options)
        process = stack.enter_context(command(*arguments, folder=folder, environment=environment))
        url, token = dashboard_of(process)
        yield Scene(name_server, url, token, process, folder)
