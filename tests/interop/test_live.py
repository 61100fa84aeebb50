"""Commands that ask a running application, on a real cluster and on the box: one process, and a parent of two."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framework.cli import main
from framework.cli.exit_codes import ExitCode
from tests.interop.application import Application
from tests.interop.places import Place
from tests.interop.processes import Nursery
from tests.patience import wait_until

pytestmark = pytest.mark.interop

QUEUES = 4


class Shop:
    """One running application and the commands that ask it."""

    def __init__(self, application: Application, socket: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.application, self.socket, self._capsys = application, socket, capsys

    def run(self, *words: str, code: int = ExitCode.CLEAN) -> str:
        self._capsys.readouterr()
        found = main.run([*words, "--socket", str(self.socket)])
        said = self._capsys.readouterr()
        assert code == found, (words, said)
        return said.out

    def rows(self, *words: str, code: int = ExitCode.CLEAN) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run(*words, "--json", code=code).splitlines()]

    def is_ready(self) -> bool:
        self._capsys.readouterr()
        is_ready = main.run(["health", "--ready", "--socket", str(self.socket)]) == ExitCode.CLEAN
        return is_ready and "ready\n" == self._capsys.readouterr().out

    def group(self) -> list[dict[str, Any]]:
        """The group in each process."""
        return [picture["groups"][0] for picture in self.rows("snapshot") if picture["groups"]]

    def shares(self, topic: str) -> list[int]:
        """How many of the topic's queues each process has, those that it is about to leave among them."""
        return [sum(queue["queue"].startswith(f"{topic}@") for queue in each["queues"]) for each in self.group()]


@pytest.fixture(params=[1, 2], ids=["one", "two workers"])
def workers(request: pytest.FixtureRequest) -> int:
    count: int = request.param
    return count


@pytest.fixture
def topic(place: Place) -> str:
    return place.made_topic(queues=QUEUES)


def send(place: Place, topic: str, *bodies: str) -> None:
    for body in bodies:
        assert ExitCode.CLEAN == main.run(["send", topic, body, "--name-server", place.name_server])


@pytest.fixture
def shop(
    place: Place, topic: str, workers: int, nursery: Nursery, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Shop]:
    """It handles slowly: a message takes half a second.

    Each process has its share before anything is sent: a join repeats what the others have at work.
    """
    socket = tmp_path / "control"
    application = Application(
        nursery, tmp_path, place.name_server, topic=topic, group=f"live-{topic}", pause_s=0.5, concurrency=2,
        options=("--workers", str(workers)) if workers > 1 else (), app={"name": "shop", "control": str(socket)},
    )  # fmt: skip
    shop = Shop(application, socket, capsys)
    wait_until(socket.is_socket, "it listens")
    wait_until(shop.is_ready, "it is ready", 90)
    wait_until(lambda: shop.shares(topic) == [QUEUES // workers] * workers, "each process has its share", 90)
    send(place, topic, *("begin",) * QUEUES)
    yield shop
    assert application.stop().code in {ExitCode.CLEAN, ExitCode.ABANDONED}
    assert not socket.exists()


def test_a_group_is_paused_resized_and_resumed_in_every_process(
    shop: Shop, place: Place, topic: str, workers: int
) -> None:
    shop.application.received(QUEUES)
    group = f"live-{topic}"
    paused = shop.rows("pause", group, "--yes")
    assert [(each, True) for each in range(workers)] == [(row["worker"], row["paused"]) for row in paused]
    send(place, topic, *map(str, range(12)))
    shop.run("health", "--ready")
    assert {True} == {each["is_paused"] for each in shop.group()}
    assert QUEUES == len(shop.application.so_far()), "nothing was handled since"

    plan = shop.run("resize", group, "5", "--dry-run")
    assert f"{group} of shop in {workers} process" in plan
    assert "from 2 to 5 handlers at once in each" in plan
    assert {2} == {each["concurrency"] for each in shop.group()}
    assert {5} == {row["concurrency"] for row in shop.rows("resize", group, "5", "--yes")}
    assert {5} == {each["concurrency"] for each in shop.group()}

    assert {False} == {row["paused"] for row in shop.rows("resume", group, "--yes")}
    shop.application.received(QUEUES + 12)
    wait_until(lambda: 0 == sum(each["lag"] or 0 for each in shop.group()), "it is up to date")
    assert QUEUES + 12 == sum(each["handled"] for each in shop.group())


def test_what_runs_is_shown_while_it_does(shop: Shop, place: Place, topic: str, workers: int) -> None:
    send(place, topic, *map(str, range(60)))

    def running() -> list[dict[str, Any]]:
        return shop.rows("stacks")

    wait_until(lambda: bool(running()), "a handler runs", pause_s=0.01)
    wait_until(lambda: any("record(" in frame for row in running() for frame in row["stack"]), "it is shown where")
    (row,) = shop.rows("top", "--count", "1", "--every", "200ms")
    assert (f"live-{topic}", True, workers) == (row["group"], row["ok"], row["processes"])
    assert row["handled_s"] is not None
    shown = shop.run("top", "--count", "1", "--every", "200ms")
    assert f"shop: ready, {workers} process" in shown
    assert "live" == shop.run("health").strip()
    assert workers == len(shop.rows("snapshot"))


def test_a_process_that_stands_still_is_named_and_makes_the_whole_unhealthy(shop: Shop, workers: int) -> None:
    """SIGSTOP: as a machine that hangs. Nothing in it can answer; who asks says so."""
    stopped = shop.application.workers[-1] if workers > 1 else None
    if stopped is None:
        shop.application.freeze()
    else:
        os.kill(stopped, signal.SIGSTOP)
    try:
        (row,) = shop.rows("health", code=ExitCode.FAILED)
        assert not row["ok"]
        (reason,) = row["reasons"]
        assert "the process is stopped, or code in it keeps every thread from running" in reason
        if stopped is not None:
            assert reason.startswith("worker ")
            pictures = shop.rows("snapshot", code=ExitCode.FAILED)
            assert [stopped] == [each["process"] for each in pictures if "error" in each]
    finally:
        if stopped is None:
            shop.application.thaw()
        else:
            os.kill(stopped, signal.SIGCONT)
    wait_until(lambda: main.run(["health", "--socket", str(shop.socket)]) == ExitCode.CLEAN, "it is well again")
