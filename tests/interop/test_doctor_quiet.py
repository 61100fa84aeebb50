"""Groups on a real cluster that are well, whatever they are: `doctor` finds nothing; and real ones that are not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from framework.cli import main
from framework.cli.exit_codes import ExitCode
from framework.net.real_clock import RealClock
from framework.reading.link import Link
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.interop.application import Application
from tests.interop.cluster import Addresses
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.processes import Nursery
from tests.interop.test_doctor import found, only
from tests.patience import wait_until

pytestmark = pytest.mark.interop

Shell = pytest.CaptureFixture[str]
EVERYWHERE = """
import os

from framework import Message, consumer


@consumer(os.environ["RECORD_TOPIC"], os.environ["RECORD_GROUP"], broadcasting=True)
async def note(message: Message) -> None:
    pass
"""


class Ward:
    """Groups on one cluster."""

    def __init__(self, name_server: str, java: JavaPeer, shell: Shell, nursery: Nursery, folder: Path) -> None:
        self.name_server, self.java = name_server, java
        self._shell, self._nursery, self._folder, self._count = shell, nursery, folder, 0

    def begin(self, group: str, topic: str, **options: Any) -> Application:
        self._count += 1
        folder = self._folder / f"member-{self._count}"
        folder.mkdir()
        return Application(self._nursery, folder, self.name_server, topic=topic, group=group, **options)

    def says(self, words: str, group: str, *options: str) -> bool:
        """Whether one look has these words; two may differ while things come about."""
        self._shell.readouterr()
        main.run(["doctor", group, "--name-server", self.name_server, *(options or ("--stuck-after", "0s"))])
        return words in self._shell.readouterr().out

    def is_well(self, group: str, *words: str, code: ExitCode = ExitCode.CLEAN) -> None:
        rows = found(self._shell, self.name_server, group, *words, code=code)
        assert not {"severe", "warning"} & {row["severity"] for row in rows}, rows


@pytest.fixture
def ward(cluster: Addresses, java: JavaPeer, capsys: Shell, nursery: Nursery, tmp_path: Path) -> Ward:
    return Ward(cluster.name_server, java, capsys, nursery, tmp_path)


@pytest.fixture
def filled(new_topic: Any, java: JavaPeer, cluster: Addresses) -> Callable[..., str]:
    def fill(count: int = 40) -> str:
        topic: str = new_topic()
        java.fill(cluster.name_server, topic, count, batch=1)
        return topic

    return fill


def test_members_of_each_kind(ward: Ward, filled: Callable[..., str]) -> None:
    topic = filled()
    everywhere = ward._folder / "everywhere.py"
    everywhere.write_text(EVERYWHERE)
    ours = {
        "queue": ward.begin(f"queue-{topic}", topic),
        "order": ward.begin(f"order-{topic}", topic, orderly=True),
        "pop": ward.begin(f"pop-{topic}", topic, delivery="pop"),
        "mixed": ward.begin(f"mixed-{topic}", topic),
    }
    ours["everywhere"] = ward.begin(f"everywhere-{topic}", topic, handlers=everywhere)
    java = [
        ward.java.consume(ward.name_server, f"mixed-{topic}", topic),
        *(ward.java.consume(ward.name_server, f"all-{topic}", topic, broadcast=True) for _ in range(2)),
        ward.java.consume(ward.name_server, f"jorder-{topic}", topic, orderly=True),
        ward.java.consume(ward.name_server, f"jpop-{topic}", topic, divided_by_broker=True),
    ]
    ward.is_well(f"queue-{topic}", "--topic", topic)  # it has hardly begun
    for kind in ("queue", "order", "pop"):
        ours[kind].received(40)

    for group in (*ours, "all", "jorder", "jpop"):
        ward.is_well(f"{group}-{topic}")
    for member in java:
        member.leave()
    for application in ours.values():
        application.stop()


def test_a_rolling_restart(ward: Ward, filled: Callable[..., str]) -> None:
    topic = filled()
    group = f"rolling-{topic}"
    old = [ward.begin(group, topic) for _ in range(2)]
    for each in old:
        wait_until(lambda each=each: "members=2" in each.said(), "both share the queues")  # type: ignore[misc]  # mypy knows no default

    for each in old:
        fresh = ward.begin(group, topic)
        ward.is_well(group)
        each.stop()
        ward.is_well(group)
        old.append(fresh)
        if len(old) == 4:
            break
    for each in old[2:]:
        each.stop()


@pytest.mark.parametrize("orderly", [False, True])
def test_a_slow_group_is_behind_and_no_queue_stands(ward: Ward, filled: Callable[..., str], orderly: bool) -> None:
    """Most of its queues wait for a worker."""
    topic = filled(400)
    group = f"slow-{topic}"
    application = ward.begin(group, topic, pause_s=0.2, concurrency=1, orderly=orderly)
    application.received(3)

    ward.is_well(group, "--stuck-after", "2s")
    application.stop()


def test_a_paused_group(ward: Ward, filled: Callable[..., str], tmp_path: Path, capsys: Shell) -> None:
    topic = filled(400)
    group, control = f"paused-{topic}", tmp_path / "control"
    application = ward.begin(group, topic, pause_s=0.2, concurrency=1, app={"control": str(control)})
    application.received(3)
    assert ExitCode.CLEAN == main.run(["pause", group, "--socket", str(control), "--yes"])

    ward.is_well(group, "--stuck-after", "1s")
    application.stop()


def test_a_group_that_stands_behind_one_message(
    ward: Ward, filled: Callable[..., str], tmp_path: Path, capsys: Shell
) -> None:
    """By a handler of ours that does not end; and the command of the remedy shows the message."""
    topic = filled(4)
    group, release = f"stuck-{topic}", tmp_path / "release"
    stuck_app = Path(__file__).with_name("stuck_app.py")
    variables = {"STUCK_RELEASE": str(release), "STUCK_BODY": "stuck"}
    ward.java.send(ward.name_server, topic, [Outgoing(body=b"stuck")])
    application = ward.begin(group, topic, handlers=stuck_app, environment=variables)
    application.received(5)

    look = (group, "--stuck-after", "1s")
    wait_until(lambda: ward.says("the queue stands at offset", *look), "it is a second old")
    rows = found(capsys, ward.name_server, *look, code=ExitCode.CLEAN)
    row = only(rows, "the queue stands at offset")
    command = row["remedy"].partition("framework-app ")[2].partition(";")[0].split()
    assert ExitCode.CLEAN == main.run([*command, "--json", "--name-server", ward.name_server])
    release.touch()
    application.stop()


def test_dead_letters_that_grow_are_replayed_by_the_remedy(
    ward: Ward, filled: Callable[..., str], capsys: Shell
) -> None:
    topic = filled(4)
    group = f"failing-{topic}"
    failing = ward.begin(group, topic, failures=1, max_retries=0, breaker=0)
    failing.received(4)
    words = "dead letters grow: 4 within the last hour; 4 wait"
    wait_until(lambda: ward.says(words, group), "the letters")
    rows = found(capsys, ward.name_server, group, code=ExitCode.CLEAN)
    remedy = only(rows, "dead letters grow")["remedy"]
    failing.stop()
    for part in ("dlq list", "dlq replay"):
        command = f"{part}{remedy.partition(part)[2]}".partition(" shows")[0].split()
        assert ExitCode.CLEAN == main.run([*command, "--name-server", ward.name_server, *["--yes"][: "replay" in part]])
    mended = ward.begin(group, topic)
    mended.received(4)

    ward.is_well(group)
    mended.stop()


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        ({"tags": "red"}, {}, "members subscribe differently"),
        ({"orderly": True}, {}, "orderly and concurrent members"),
        ({"allocation": "circle"}, {}, "different strategies"),
        ({}, {"broadcast": True}, "members differ in their model"),
    ],
)
def test_a_member_of_ours_that_differs_from_java_s(
    ward: Ward, filled: Callable[..., str], capsys: Shell, ours: dict[str, Any], theirs: dict[str, Any], words: str
) -> None:
    topic = filled()
    group = f"odd-{topic}"
    member = ward.java.consume(ward.name_server, group, topic, **theirs)
    application = ward.begin(group, topic, **ours)

    wait_until(lambda: ward.says(words, group), words)
    assert "severe" == only(found(capsys, ward.name_server, group, code=ExitCode.FAILED), words)["severity"]
    application.stop()
    member.leave()


@pytest.mark.xdist_group("lone_cluster")
@pytest.mark.parametrize(("off_ms", "severity"), [(-40_000, "warning"), (3_600_000, "severe")])
def test_a_clock_that_is_off(
    cluster: Addresses, capsys: Shell, monkeypatch: pytest.MonkeyPatch, off_ms: int, severity: str
) -> None:
    """This machine's: which of two is wrong cannot be told."""
    now_ms = RealClock.now_ms
    monkeypatch.setattr(RealClock, "now_ms", lambda clock: now_ms(clock) + off_ms)
    main.run(["doctor", "--json", "--stuck-after", "0s", "--name-server", cluster.name_server])

    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    row = only(rows, "the clocks differ", "behind this machine's" if off_ms > 0 else "ahead of this machine's")
    assert (severity, True) == (row["severity"], row["remedy"].startswith("synchronize both (chrony"))


READS = {
    "GET_ROUTEINFO_BY_TOPIC", "GET_BROKER_CLUSTER_INFO", "GET_BROKER_CONFIG", "GET_BROKER_RUNTIME_INFO",
    "GET_ALL_TOPIC_CONFIG", "GET_ALL_SUBSCRIPTIONGROUP_CONFIG", "GET_CONSUME_STATS", "GET_CONSUMER_CONNECTION_LIST",
    "GET_CONSUMER_RUNNING_INFO", "QUERY_CONSUMER_OFFSET", "QUERY_CONSUME_TIME_SPAN", "GET_MAX_OFFSET", "GET_MIN_OFFSET",
    "SEARCH_OFFSET_BY_TIMESTAMP", "QUERY_MESSAGE",
}  # fmt: skip


@pytest.mark.xdist_group("lone_cluster")
def test_it_asks_nothing_that_changes_something(
    ward: Ward, filled: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = filled()
    group = f"read-{topic}"
    application = ward.begin(group, topic)
    application.received(40)
    asked: set[str] = set()
    ask = Link.ask

    def noted(link: Link, command: RemotingCommand, *, timeout_ms: int) -> tuple[int, int]:
        asked.add(RequestCode(command.code).name)
        return ask(link, command, timeout_ms=timeout_ms)

    monkeypatch.setattr(Link, "ask", noted)
    ward.is_well(group)
    main.run(["doctor", "--stuck-after", "0s", "--name-server", ward.name_server])

    assert asked
    assert set() == asked - READS
    application.stop()
