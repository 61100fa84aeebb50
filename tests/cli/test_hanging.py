"""Plain handlers in endless loops, under `run --workers`: their process is drained and another takes its place."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from framework import Message, Producer
from tests.cli.processes import command

SHOP = """
import os
import time

from framework import Message, consumer


@consumer("orders", "billing")
def bill(order: Message) -> None:
    print(f"began {order.body.decode()} in {os.getpid()}", flush=True)
    while order.body == b"endless":
        time.sleep(0.01)  # a loop without end is what this is about; it leaves the processor to others
"""
SETTINGS = """
app: {handlers: [shop]}
consumers: {billing: {start: first, concurrency: 1, timeout: 1s, expiry: drop}}
"""
pytestmark = pytest.mark.timeout(300)  # several processes, on a machine that may have much else to do


@pytest.fixture
def box(tmp_path: Path) -> Iterator[str]:
    with command("broker", "--memory", folder=tmp_path) as broker:
        yield broker.until("broker: ready").split("namesrv=")[1].split()[0]
        assert 0 == broker.end()


def send(box: str, *bodies: str) -> None:
    """All in one queue, so that one worker has them."""

    async def sending() -> None:
        async with Producer(name_servers=[box]) as producer:
            await producer.send_batch([Message("orders", body.encode()) for body in bodies])

    asyncio.run(sending())


def test_a_worker_whose_threads_all_hang_is_replaced_and_what_it_held_goes_on(
    tmp_path: Path, box: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """One place, and one beside it for the first that hangs: the second one that hangs leaves none."""
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "framework-app.yaml").write_text(SETTINGS)
    send(box, "first")  # so that there is a topic to share
    said = ""

    def until(holds: Callable[[str], bool]) -> None:
        nonlocal said
        while not holds(said):  # the test's own time-out is the bound
            time.sleep(0.1)  # between two looks at another process
            said += capfd.readouterr().err

    with command("run", "--name-server", box, "--workers", "2", folder=tmp_path) as running:
        until(lambda said: said.count("members=2 owned=2 queues=4 topic=orders") >= 2)
        send(box, "endless", "endless", "fine")
        hung = {int(running.until("began endless in ").rpartition(" ")[2]) for _ in range(2)}
        held = int(running.until("began fine in ").rpartition(" ")[2])
        until(lambda said: "its handlers hang" in said)
        assert 0 == running.end()

    assert 1 == len(hung)
    assert held not in hung
    assert "handlers hung" in said
    assert f"bill({tmp_path.name}/shop.py:" in said
    with pytest.raises(ProcessLookupError):
        os.kill(hung.pop(), 0)
    assert running.lines[-1].endswith("retried=0 dead=0 left=0"), "nobody waits for those that hang"
