"""A broker that crashed: its name server forgets it, and whoever looks does not. On a real cluster of two brokers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from framework import Producer
from framework.cli import main
from framework.cli.exit_codes import ExitCode
from framework.model.queue import MessageQueue
from framework.reading import Reader, ReaderSettings
from framework.reading.link import Link
from framework.wire.bodies.running import ProcessQueueInfo
from framework.wire.command import RemotingCommand
from tests.admin.members import Member, online
from tests.interop import probe
from tests.interop.cluster import Cluster, Shape
from tests.interop.places import Place
from tests.interop.processes import Nursery
from tests.patience import wait_until

# They share a cluster, whose offsets take ten seconds to reach its disks.
pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("missing")]

GROUP = "billing"
TOPIC = f"topic-{GROUP}"


class Watcher:
    """Asks the commands as their user does."""

    def __init__(self, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
        self.cluster, self._capsys = cluster, capsys
        self.errors = ""

    def run(self, *words: str) -> tuple[ExitCode, str]:
        self._capsys.readouterr()
        code = main.run([*words, "--name-server", self.cluster.name_server])
        said = self._capsys.readouterr()
        self.errors = said.err
        return ExitCode(code), said.out

    def rows(self, *words: str) -> tuple[ExitCode, list[dict[str, Any]]]:
        code, text = self.run(*words, "--json")
        return code, [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def cluster_of_two(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), nursery, Shape(brokers=2)) as cluster:
        place = Place(cluster.name_server, lambda: GROUP)
        assert TOPIC == place.made_topic(queues=2)
        asyncio.run(fill(cluster, place))
        yield cluster


@pytest.fixture
def two(cluster_of_two: Cluster) -> Cluster:
    cluster_of_two.start()
    return cluster_of_two


async def fill(cluster: Cluster, place: Place) -> None:
    """Twelve messages, all of which the group has handled, which each broker remembers when it has been killed."""
    async with Producer(name_servers=[cluster.name_server]) as producer:
        for _ in range(12):
            await producer.send(TOPIC, "x")
    await asyncio.to_thread(handle, cluster, place)


def handle(cluster: Cluster, place: Place) -> None:
    place.shows(TOPIC, 12)
    with Reader(ReaderSettings((cluster.name_server,))) as reader:
        for queue, end in reader.max_offsets(reader.queues(TOPIC)).items():
            reader.commit(GROUP, queue, end)
    for role in ("broker-a", "broker-b"):
        wait_until(partial(has_kept, cluster, role), f"offsets on the disk of {role}")


def has_kept(cluster: Cluster, role: str) -> bool:
    """Whether the broker has the group's offsets on its disk. It writes them 10 s after its start and then each 5 s;
    what it has confirmed since, a kill takes along.
    """
    file = cluster.directory / "store" / role / "config" / "consumerOffset.json"
    offsets = file.read_text() if file.exists() else ""
    return bool(re.search(rf'"{TOPIC}@{GROUP}":\{{0:\d+,1:\d+\}}', re.sub(r"\s", "", offsets)))


def test_a_broker_that_crashed_is_missed_until_it_is_back(two: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    watcher = Watcher(two, capsys)
    code, rows = watcher.rows("lag", GROUP)
    assert (ExitCode.CLEAN, 4) == (code, len([row for row in rows if row["topic"] == TOPIC]))
    two.kill("broker-b")
    wait_until(lambda: len(probe.known_brokers(two.name_server)) == 1, "the name server forgets it")

    code, rows = watcher.rows("lag", GROUP)
    assert ExitCode.FAILED == code
    lost = [row for row in rows if row["broker"] == "broker-b" and row["topic"] == TOPIC]
    assert [(0, None, None, None), (1, None, None, None)] == [
        (row["queue"], row["offset"], row["end"], row["lag"]) for row in lost
    ]
    assert "unknown: broker-b: no name server knows it any more; it was there at 20" in watcher.errors
    assert "framework-app lag --forget broker-b" in watcher.errors
    for words in (
        ("lag",),
        ("lag", "--fail-above", "10"),
        ("lag", GROUP, "--fail-above", "10"),
        ("groups",),
        ("groups", GROUP),
    ):
        code, said = watcher.run(*words)
        assert (ExitCode.FAILED, True) == (code, "unknown: broker-b" in watcher.errors), words
        assert "up to date" not in said, words
    for place in ("earliest", "latest"):
        code, said = watcher.run("reset", GROUP, "--to", place, "--yes")
        assert code != ExitCode.CLEAN
        assert "nothing is reset while a part of the group is not known: broker-b" in watcher.errors
    for words in (("topics",), ("tail", TOPIC), ("dlq", "list", GROUP), ("doctor",)):
        _, said = watcher.run(*words)
        assert "broker-b" in said + watcher.errors, words

    assert ExitCode.CLEAN == watcher.run("lag", GROUP, "--no-memory")[0], "somebody else's first look"
    named = ("--set", "cluster.brokers=broker-a,broker-b", "--no-memory")
    assert ExitCode.FAILED == watcher.run("lag", GROUP, "--fail-above", "10", *named)[0]
    assert "unknown: broker-b: cluster.brokers names it" in watcher.errors
    held = {MessageQueue(TOPIC, broker, 1): ProcessQueueInfo() for broker in ("broker-a", "broker-b")}
    with online(two.name_server, Member(client_id="holds", group=GROUP, wants={TOPIC: "*"}, queues=lambda: held)):
        code, rows = watcher.rows("lag", GROUP, "--no-memory")
    assert ExitCode.FAILED == code
    assert "unknown: broker-b: members have queues of it" in watcher.errors
    assert [("holds", None)] == [(row["owner"], row["lag"]) for row in rows if row["broker"] == "broker-b"]

    two.start()
    code, rows = watcher.rows("lag", GROUP)
    assert (ExitCode.CLEAN, [0] * 4) == (code, [row["lag"] for row in rows if row["topic"] == TOPIC])
    two.kill("broker-b")
    wait_until(lambda: len(probe.known_brokers(two.name_server)) == 1, "the name server forgets it again")
    assert ExitCode.CLEAN == watcher.run("lag", GROUP, "--forget", "broker-b")[0]
    assert ExitCode.CLEAN == watcher.run("lag", GROUP)[0]
    assert ExitCode.USAGE == watcher.run("lag", "--forget", "broker-b")[0]


def test_where_the_only_broker_crashed_its_group_is_still_known(
    two: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    watcher = Watcher(two, capsys)
    watcher.run("lag")
    for role in ("broker-a", "broker-b"):
        two.kill(role)
    wait_until(lambda: not probe.known_brokers(two.name_server), "the name server forgets both")

    for words in (("lag", GROUP), ("groups", GROUP), ("lag",), ("groups",)):
        code, said = watcher.run(*words)
        assert (ExitCode.FAILED, True) == (code, GROUP in said), words
        assert "no broker knows" not in watcher.errors


def test_a_broker_that_does_not_answer_is_waited_for_once(
    two: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is registered, and the system answers for it: each request to it costs the whole time-out."""
    watcher = Watcher(two, capsys)
    watcher.run("lag")
    address, waited = two.addresses.brokers["broker-b"], []
    ask = Link.ask

    def noted(link: Link, command: RemotingCommand, *, timeout_ms: int) -> tuple[int, int]:
        waited.extend([command.code] if link.peer == address else [])
        return ask(link, command, timeout_ms=timeout_ms)

    monkeypatch.setattr(Link, "ask", noted)
    stopped = two.pids()["broker-b"]
    os.kill(stopped, signal.SIGSTOP)
    try:
        for words in (("lag", GROUP), ("groups",)):
            waited.clear()
            code, _ = watcher.run(*words, "--set", "cluster.request_timeout=1s")
            assert ExitCode.FAILED == code
            assert 1 == len(waited), (words, waited)
            assert re.search(rf"^unknown: broker-b: .*no answer from {address}", watcher.errors, re.MULTILINE)
        waited.clear()
        code, rows = watcher.rows("doctor", GROUP, "--stuck-after", "0s", "--set", "cluster.request_timeout=1s")
        assert (ExitCode.CLEAN, 1) == (code, len(waited))
        silent = [row for row in rows if row["where"] == "broker-b"]
        assert len(silent) > 8
        for row in silent:
            assert "unknown" == row["severity"]
            assert f"no answer from {address}" in row["finding"]
    finally:
        os.kill(stopped, signal.SIGCONT)
