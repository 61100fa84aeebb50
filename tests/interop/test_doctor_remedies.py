"""Each remedy of `doctor` is pasted as it is printed, on a real cluster, and mends what was found."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framework import Producer
from framework.admin.cluster import Admin as Asking
from framework.admin.groups import GROUP_CONFIGS
from framework.cli import main
from framework.cli.exit_codes import ExitCode
from framework.client.options import ClusterOptions
from framework.errors import FrameworkError
from framework.wire.bodies.config import GroupConfig
from tests.admin.members import Member, online
from tests.interop.application import Application
from tests.interop.cluster import Cluster, Shape
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.live import NewTopic
from tests.interop.mqadmin import Admin
from tests.interop.processes import Nursery
from tests.interop.test_doctor import found, only
from tests.patience import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("doctor_remedies")]

Shell = pytest.CaptureFixture[str]
CLOSED = {
    "autoCreateTopicEnable": "false",
    "autoCreateSubscriptionGroup": "false",
    "enablePropertyFilter": "false",
    "timerWheelEnable": "false",
}


class Patient:
    """A cluster, and what may be asked of it."""

    def __init__(self, name_server: str, brokers: dict[str, str], java: JavaPeer, shell: Shell, folder: Path) -> None:
        self.name_server, self.brokers, self.java, self._shell, self._folder = name_server, brokers, java, shell, folder
        self.admin = Admin(java, name_server)

    def find(self, *words: str, code: ExitCode = ExitCode.CLEAN) -> list[dict[str, Any]]:
        return found(self._shell, self.name_server, *words, code=code)

    def rows(self, *words: str) -> list[dict[str, Any]]:
        """What it finds, however it ends."""
        self._shell.readouterr()
        main.run(["doctor", *words, "--json", "--stuck-after", "0s", "--name-server", self.name_server])
        return [json.loads(line) for line in self._shell.readouterr().out.splitlines()]

    def set(self, name: str, text: str) -> None:
        self.admin.run("updateBrokerConfig", "-b", self.brokers["broker-a"], "-k", name, "-v", text)

    def group(self, name: str) -> GroupConfig:
        """As broker-a keeps it."""
        with Asking(ClusterOptions(name_servers=(self.name_server,))) as asking:
            return asking.ask(asking.brokers()[0], GROUP_CONFIGS).groups[name]

    def mend(self, row: dict[str, Any], **replaced: str) -> None:
        line = row["remedy"]
        for placeholder, name in replaced.items():
            line = line.replace(placeholder, name)
        self.admin.paste(line)

    def send(self, topic: str, body: str = "x", **options: Any) -> None:
        async def send() -> None:
            async with Producer(name_servers=[self.name_server]) as producer:
                await producer.send(topic, body, **options)

        asyncio.run(send())


@pytest.fixture(scope="module")
def closed_cluster(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Its broker was started with everything off, as careful operators have it."""
    with Cluster(tmp_path_factory.mktemp("cluster"), nursery, Shape(settings=CLOSED)) as cluster:
        yield cluster


@pytest.fixture
def closed(closed_cluster: Cluster, java: JavaPeer, capsys: Shell, tmp_path: Path) -> Patient:
    where = closed_cluster.addresses
    return Patient(where.name_server, dict(where.brokers), java, capsys, tmp_path)


@pytest.fixture
def stock(cluster: Any, java: JavaPeer, capsys: Shell, tmp_path: Path) -> Patient:
    return Patient(cluster.name_server, dict(cluster.brokers), java, capsys, tmp_path)


def test_a_topic_and_a_group_that_nobody_makes(closed: Patient, numbers: Any) -> None:
    """Also for broadcasting members: what mqadmin is not told, it turns off."""
    topic, group = f"topic-{numbers()}", f"group-{numbers()}"
    rows = closed.find(group, "--topic", topic, code=ExitCode.FAILED)

    closed.mend(only(rows, "the topic does not exist, and broker-a makes none"))
    closed.mend(only(rows, "a broker does not have the group"))
    assert not {"severe", "warning"} & {row["severity"] for row in closed.find(group, "--topic", topic)}
    closed.java.fill(closed.name_server, topic, 4, batch=1)
    member = closed.java.consume(closed.name_server, group, topic, broadcast=True)
    assert 4 == len(member.received(4))
    member.leave()


def test_a_first_send_to_a_broker_that_makes_no_topics(closed: Patient, numbers: Any) -> None:
    """Turned on while it runs, the switch does not help: the template is made at a start alone."""
    words = "the first send to a new topic fails"
    row = only(closed.find(), words, "broker-a")
    assert row["finding"].startswith("autoCreateTopicEnable=false: ")
    topic = f"topic-{numbers()}"
    with pytest.raises(FrameworkError):
        closed.send(topic)
    closed.mend(row, TOPIC=topic)
    closed.send(topic)

    closed.set("autoCreateTopicEnable", "true")
    try:
        with pytest.raises(FrameworkError):
            closed.send(f"topic-{numbers()}")
        row = only(closed.find(), words, "broker-a")
        assert row["finding"].startswith("autoCreateTopicEnable=true, and it was started with false: ")
    finally:
        closed.set("autoCreateTopicEnable", "false")


def test_a_new_group_that_gets_nothing(closed: Patient, numbers: Any) -> None:
    topic, group = f"topic-{numbers()}", f"group-{numbers()}"
    row = only(closed.find(), "autoCreateSubscriptionGroup=false: a new group gets nothing")
    closed.mend(only(closed.find(group, "--topic", topic, code=ExitCode.FAILED), "the topic does not exist"))
    closed.java.fill(closed.name_server, topic, 4, batch=1)

    closed.mend(row)
    try:
        member = closed.java.consume(closed.name_server, group, topic)
        assert 4 == len(member.received(4))
        member.leave()
    finally:
        closed.set("autoCreateSubscriptionGroup", "false")


def test_a_filter_that_brokers_refuse(closed: Patient, nursery: Nursery, tmp_path: Path, numbers: Any) -> None:
    """A start is refused, so that nothing is known of the group; one that runs already gets nothing any more."""
    topic, group = f"topic-{numbers()}", f"group-{numbers()}"
    for row in closed.find(group, "--topic", topic, code=ExitCode.FAILED):
        if row["severity"] == "severe":
            closed.mend(row)
    closed.java.send(closed.name_server, topic, [Outgoing(body=b"x", properties={"a": "7"})])

    def begin() -> Application:
        variables = {"RECORD_SQL": "a > 5"}
        return Application(nursery, tmp_path, closed.name_server, topic=topic, group=group, environment=variables)

    assert ExitCode.CONFIGURATION == begin().ended().code
    closed.mend(only(closed.find(group), "enablePropertyFilter=false: a consumer with a SQL92 filter is refused"))
    application = begin()
    assert 1 == len(application.received(1))
    assert "SQL92" not in str(closed.find(group))

    closed.set("enablePropertyFilter", "false")
    row = only(closed.find(group, code=ExitCode.FAILED), f"the group filters {topic} by SQL92")
    closed.mend(row)
    assert "SQL92" not in str(closed.find(group))
    closed.set("enablePropertyFilter", "false")
    application.stop()


def test_a_topic_for_progress_that_nobody_makes(
    closed: Patient, nursery: Nursery, tmp_path: Path, numbers: Any
) -> None:
    topic, group = f"topic-{numbers()}", f"group-{numbers()}"
    for row in closed.find(group, "--topic", topic, code=ExitCode.FAILED):
        if row["severity"] == "severe":
            closed.mend(row)
    closed.java.fill(closed.name_server, topic, 4, batch=1)
    application = Application(nursery, tmp_path, closed.name_server, topic=topic, group=group)
    application.received(4)

    row = only(closed.find(group), "the topic for progress is missing", f"%ACK%{group} on broker-a")
    assert "warning" == row["severity"]
    closed.mend(row)

    assert "%ACK%" not in str(closed.find(group))
    application.stop()


def test_a_group_that_throws_retries_away_keeps_what_else_it_was_told(stock: Patient, numbers: Any) -> None:
    topic, group = f"topic-{numbers()}", f"group-{numbers()}"
    stock.java.fill(stock.name_server, topic, 4, batch=1)
    where = ("-b", stock.brokers["broker-a"])
    stock.admin.run("updateSubGroup", *where, "-g", group, "-q", "0", "-d", "true", "-m", "true", "-r", "5")

    stock.mend(only(stock.find(group, "--topic", topic, code=ExitCode.FAILED), "retryQueueNums=0"))

    assert [] == stock.find(group, "--topic", topic)
    kept = stock.group(group)
    assert (1, 5, True, True) == (
        kept.retry_queues, kept.retries_max, kept.consume_broadcast_enable, kept.consume_from_min_enable
    )  # fmt: skip
    member = stock.java.consume(stock.name_server, group, topic, failures=1)
    assert 8 == len(member.received(8, timeout_s=60))
    member.leave()


@pytest.mark.parametrize(("options", "broadcast"), [(("-s", "false"), False), (("-d", "false"), True)])
def test_a_group_that_its_broker_gives_nothing(
    stock: Patient, numbers: Any, options: tuple[str, str], broadcast: bool
) -> None:
    topic, group = f"topic-{numbers()}", f"group-{numbers()}"
    stock.java.fill(stock.name_server, topic, 4, batch=1)
    stock.admin.run("updateSubGroup", "-b", stock.brokers["broker-a"], "-g", group, *options)
    member = stock.java.consume(stock.name_server, group, topic, broadcast=broadcast)

    row = only(stock.find(group, code=ExitCode.FAILED), "the broker gives")
    assert [] == member.received(1, timeout_s=1)
    stock.mend(row)

    assert [] == stock.find(group)
    assert 4 == len(member.received(4))
    member.leave()


CLOSINGS: dict[str, tuple[str, ...]] = {
    "not to be read": ("updateTopicPerm", "-t", "TOPIC", "-p", "2"),
    "not to be written": ("updateTopicPerm", "-t", "TOPIC", "-p", "4"),
    "without a queue": ("updateTopic", "-t", "TOPIC", "-r", "0", "-w", "0"),
    "wiped": ("wipeWritePerm",),
}


@pytest.mark.parametrize("closing", CLOSINGS.values(), ids=CLOSINGS)
def test_a_topic_that_is_closed(stock: Patient, new_topic: NewTopic, numbers: Any, closing: tuple[str, ...]) -> None:
    """What closed it is told apart: each has a command of its own."""
    topic, group = new_topic(), f"group-{numbers()}"
    command, *words = (topic if word == "TOPIC" else word for word in closing)
    where = "broker-a" if command == "wipeWritePerm" else stock.brokers["broker-a"]
    stock.send(topic)
    stock.admin.run(command, "-b", where, *words)
    rows = [row for row in stock.rows(group, "--topic", topic) if row["where"] == f"{topic} on broker-a"]

    assert rows
    stock.mend(rows[0])

    wait_until(lambda: [] == stock.find(group, "--topic", topic), "all is well")
    stock.send(topic)


def test_more_members_than_queues(stock: Patient, new_topic: NewTopic) -> None:
    topic = new_topic(queues=2)
    members = [Member(client_id=f"m{number}", group=f"g-{topic}", wants={topic: "*"}) for number in range(5)]
    with online(stock.name_server, *members):
        stock.mend(only(stock.find(f"g-{topic}"), "5 members share 2 queues: 3 of them get nothing"))
        assert [] == stock.find(f"g-{topic}")
