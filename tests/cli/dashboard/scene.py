"""A shop to look at: a broker in the box, an application with a member that is slow and one that fails, a dashboard.

Everything is a process of its own with folders of its own; whatever was started is ended.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from framework import Message, Producer, SyncProducer
from framework.net.control.asking import Answer, ask_all
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
CONSUMED = {("billing", "orders"), ("shipping", "orders"), ("tracking", "parcels")}
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
    """Topics are there when something was sent to them."""
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


def _wait_until_shared(folder: Path, count: int) -> None:
    """Each has queues of each topic, and none has two owners: what moves later is handled by both."""

    def is_shared() -> bool:
        answers = ask_all(dict(enumerate(folder.glob("*.sock"))), {"ask": "snapshot"}, 6.0).values()
        members = [_owned(each) for each in answers if not isinstance(each, Exception) and "snapshot" in each]
        owners = Counter(queue for queues in members for queue in queues)
        shares = [{(group, queue.partition("@")[0]) for group, queue in queues} for queues in members]
        return count == len(shares) and all(CONSUMED <= each for each in shares) and {1} == set(owners.values())

    wait_until(is_shared, f"queues with each of {count} applications", PATIENCE_S)


def _owned(answer: Answer) -> list[tuple[str, str]]:
    groups = answer["snapshot"]["groups"]
    return [(group["group"], queue["queue"]) for group in groups for queue in group["queues"]]


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
        send_first(name_server)
        for _ in range(2):
            app = command("run", "--json", "--name-server", name_server, folder=folder, environment=environment)
            stack.enter_context(app)
        _wait_until_shared(folder / "framework-app", 2)
        send(name_server)
        arguments = ("dashboard", "--listen", "127.0.0.1:0", "--json", "--name-server", name_server, *options)
        process = stack.enter_context(command(*arguments, folder=folder, environment=environment))
        url, token = dashboard_of(process)
        yield Scene(name_server, url, token, process, folder)
