"""Brokers die under orderly groups and come back: their locks are gone, their messages are not, and order is kept."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.application import Application
from tests.interop.cluster import Cluster
from tests.interop.java_peer import JavaPeer
from tests.interop.places import ROOT
from tests.interop.processes import Nursery
from tests.interop.test_orderly import QUEUES, Stock
from tests.interop.test_orderly_ways import HANDLERS, by_start, numbers_of
from tests.patience import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(420)]

COUNT = 60


class Box:
    """The broker in the box with a folder, in a process that can be killed."""

    def __init__(self, folder: Path, nursery: Nursery) -> None:
        self._folder, self._nursery = folder, nursery
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self.name_server = f"127.0.0.1:{self._port}"
        self._child: subprocess.Popen[str] | None = None

    def start(self, *, timeout_s: float) -> None:
        ready = self._folder / "ready"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "framework", "broker", "--data", str(self._folder / "data")]
        self._child = self._nursery.start(
            [*command, "--port", str(self._port), "--ready-file", str(ready)], cwd=ROOT, output=self._folder / "log"
        )
        wait_until(lambda: ready.exists() and ready.read_text().endswith("\n"), f"the box ({self._folder})", timeout_s)

    def kill(self, role: str = "") -> None:
        assert self._child is not None
        self._nursery.kill(self._child)
        self._child = None

    def stop(self) -> None:
        if self._child is not None:
            self.kill()


@pytest.fixture(params=[pytest.param("real", marks=pytest.mark.slow), "box"])
def mortal(
    request: pytest.FixtureRequest, nursery: Nursery, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster | Box]:
    """A broker of one's own. The real one takes its time to come up: `make slow PART=orderly_faults`."""
    folder = tmp_path_factory.mktemp("mortal")
    broker: Cluster | Box = Cluster(folder, nursery) if request.param == "real" else Box(folder, nursery)
    try:
        broker.start(timeout_s=200)
        yield broker
    finally:
        broker.stop()


def test_order_is_kept_over_a_broker_s_kill_and_restart(
    mortal: Cluster | Box, java: JavaPeer, numbers: Callable[[], str], nursery: Nursery, tmp_path: Path
) -> None:
    """Two members share the queues. Whoever has a queue after the restart goes back to what is stored, at most once for
    the lost lease and once where the queue has another owner; nobody skips a message, and nobody starts one behind
    another's back.
    """
    stock = Stock(java, mortal.name_server, f"mortal-{numbers()}")
    stock.send(COUNT)

    def member(name: str) -> Application:
        (tmp_path / name).mkdir()
        return Application(
            nursery, tmp_path / name, stock.name_server, topic=stock.topic, group=f"keepers-of-{stock.topic}",
            handlers=HANDLERS, environment={"ORDERLY_HOW": "clock"},
        )  # fmt: skip

    members = [member("first"), member("second")]
    members[0].received(QUEUES)
    mortal.kill("broker-a")
    before = sum(len(each.so_far()) for each in members)
    assert before < QUEUES * COUNT, "it dies mid-stream"
    mortal.start(timeout_s=200)
    back = time.monotonic()

    def handled() -> list[set[int]]:
        everything = [message for each in members for message in each.so_far()]
        return [set(numbers_of(everything, queue)) for queue in range(QUEUES)]

    wait_until(lambda: all(len(each) == COUNT for each in handled()), "every message", 180, pause_s=0.2)
    print(f"all handled {time.monotonic() - back:.1f} s after the broker's return")
    codes = [each.stop().code for each in members]

    assert [0, 0] == codes
    for queue in range(QUEUES):
        assert list(range(COUNT)) == sorted(handled()[queue]), "none lost"
        steps, _ = by_start(members, queue)
        assert max(steps) == 1, "whoever goes on skips nothing"
        assert sum(step != 1 for step in steps) <= 3, "it goes back with a new lease, and else not"
