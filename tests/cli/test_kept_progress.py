"""`progress: broker` with the real commands: SIGKILL of application and box beside a stuck message, and a take-over."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from framework import Message, Producer
from framework.broker.store.database import open_folder
from framework.model.queue import MessageQueue
from tests.broker.broker_lab import BrokerLab
from tests.cli.processes import Command, Errors, command
from tests.ports import free_port

COUNT, STUCK = 100, 1
SHOP = f"""
import asyncio
from pathlib import Path

from framework import Delivery, Message, consumer


@consumer("orders", "billing")
async def bill(order: Message, delivery: Delivery) -> None:
    number = int(order.body)
    print(f"began {{number}} in {{delivery.epoch}}", flush=True)
    while number == {STUCK} and not Path("release").exists():
        await asyncio.sleep(0.02)
    print(f"ended {{number}}", flush=True)
"""
SETTINGS = "app: {handlers: [shop]}\nconsumers: {billing: {start: first, progress: broker}}\n"
ALL_BUT_THE_STUCK_ONE = f"ranges=[[{STUCK + 1}, {COUNT}]]"


def listening(broker: Command) -> str:
    return broker.until("broker: ready").split("namesrv=")[1].split()[0]


def send(name_server: str, numbers: range, queue: MessageQueue | None = None) -> MessageQueue:
    """All in one queue; which one."""

    async def sending() -> MessageQueue:
        async with Producer(name_servers=[name_server]) as producer:
            messages = [Message("orders", b"%d" % number) for number in numbers]
            sent = await producer.send_batch(messages, queue=queue)
            return sent[0].queue

    return asyncio.run(sending())


def begun(running: Command) -> list[tuple[int, int]]:
    """Which messages were begun, and in which epoch."""
    words = [line.split() for line in running.lines if line.startswith("began ")]
    return [(int(number), int(epoch)) for _, number, _, epoch in words]


def test_a_kill_of_application_and_box_repeats_the_stuck_message_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "framework-app.yaml").write_text(SETTINGS)
    box = ("broker", "--data", str(tmp_path / "box"), "--port", str(free_port()))
    with command(*box, folder=tmp_path) as broker:
        address = listening(broker)
        queue = send(address, range(COUNT))
        with command("run", "--name-server", address, "--debug", folder=tmp_path) as first:
            first.until(f"ended {COUNT - 1}")
            Errors(capfd).until(first, ALL_BUT_THE_STUCK_ONE)
            first.end(signal.SIGKILL)
        broker.end(signal.SIGKILL)

    with command(*box, folder=tmp_path) as broker:
        assert address == listening(broker)
        with command("run", "--name-server", address, folder=tmp_path) as second:
            second.until(f"began {STUCK} ")
            (tmp_path / "release").touch()
            second.until(f"ended {STUCK}")
            assert 0 == second.end()
        send(address, range(COUNT, COUNT + 1), queue)
        with command("run", "--name-server", address, folder=tmp_path) as third:
            third.until(f"ended {COUNT}")
            assert 0 == third.end()
        assert 0 == broker.end()

    assert list(range(COUNT)) == sorted(number for number, _ in begun(first))
    ((again, epoch),) = begun(second)
    assert STUCK == again
    assert epoch > max(former for _, former in begun(first))
    assert [COUNT] == [number for number, _ in begun(third)], "what had ended before the kill stays ended"
    lab = BrokerLab(database=open_folder(tmp_path / "box"))
    assert COUNT + 1 == lab.node.offsets.get("billing", "orders", queue.number)
    lab.store.close()
