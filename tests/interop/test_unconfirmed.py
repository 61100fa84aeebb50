"""A real broker is killed beside a handler: the stop says how many messages come again, and so many do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from framework import Producer
from framework.cli.exit_codes import ExitCode
from tests.interop.application import Application
from tests.interop.cluster import Cluster
from tests.interop.processes import Nursery
from tests.patience import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300), pytest.mark.xdist_group("lone_cluster")]


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_as_many_come_again_as_the_last_line_says(
    orderly: bool, nursery: Nursery, numbers: Callable[[], str], lone_cluster: Cluster, tmp_path: Path
) -> None:
    topic, group = f"orders-{numbers()}", f"billing-{numbers()}"

    async def send() -> None:
        async with Producer(name_servers=[lone_cluster.name_server]) as producer:
            await producer.send(topic, b"1")

    asyncio.run(send())

    release = tmp_path / "release"

    def start(name: str) -> Application:
        folder = tmp_path / name
        folder.mkdir()
        return Application(
            nursery, folder, lone_cluster.name_server, topic=topic, group=group, orderly=orderly,
            handlers=Path(__file__).with_name("stuck_app.py"), app={"drain": "1m"},
            environment={"STUCK_RELEASE": str(release), "STUCK_BODY": "1"},
        )  # fmt: skip

    first = start("first")
    first.received(1, timeout_s=90)  # noted at its beginning
    wait_until(lambda: '"event": "ready"' in first.said(), "it has started")
    lone_cluster.kill("broker-a")
    release.touch()
    ended = first.stop()
    assert {"abandoned": 0, "unconfirmed": 1}.items() <= ended.events[-1].items(), first.said()
    assert ExitCode.ABANDONED == ended.code, first.said()

    lone_cluster.start()
    again = start("again")
    again.received(1, timeout_s=90)
    wait_until(lambda: '"event": "handled"' in again.said(), "its end")
    assert 0 == again.stop().code
