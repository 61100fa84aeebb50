"""Each remedy of `doctor` is pasted as it is printed, on a real cluster, and mends what was found."""

from __future__ import annotations

import asyncio
import json
import re
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
from framework.reading import Reader, ReaderSettings
from framework.wire.bodies.config import GroupConfig
from tests.admin.members import Member, online
from tests.interop import probe
from tests.interop.application import Application
from tests.interop.cluster import Cluster, Shape
from tests.interop.java_peer import JavaPeer, Outgoing, PeerError, User
from tests.interop.live import NewTopic
from tests.interop.mqadmin import Admin
from tests.interop.processes import Nursery
from tests.interop.test_box_users import ACCESS_CONTROL, ROOT
from tests.interop.test_doctor import found, only
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.interop
ON_THE_CLOSED = pytest.mark.xdist_group("doctor_remedies")
"""One process starts that cluster, for all its tests."""

APP = User("app", "secret-of-app")
Shell = pytest.CaptureFixture[str]
CLOSED = {
    "autoCreateTopicEnable": "false",
    "autoCreateSubscriptionGroup": "false",
    "enablePropertyFilter": "false",
    "timerWheelEnable": "false",
}


class Patient:
    """A cluster, and what may be asked of it."""

    def __init__(self, name_server: str, brokers: dict[str, str], java: JavaPeer, shell: Shell) -> None:
        self.name_server, self.brokers, self.java, self._shell = name_server, brokers, java, shell
        self.admin = Admin(java, name_server)

    def find(self, *words: str, code: ExitCode = ExitCode.CLEAN) -> list[dict[str, Any]]:
        return found(self._shell, self.name_server, *words, code=code)

    def sign(self, user: User) -> None:
        """From now on mqadmin is this user."""
        tools = self.java.home / "conf" / "tools.yml"
        tools.parent.mkdir(exist_ok=True)
        tools.write_text(f"accessKey: {user.name}\nsecretKey: {user.password}\n")

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
    return Patient(where.name_server, dict(where.brokers), java, capsys)


@pytest.fixture
def stock(cluster: Any, java: JavaPeer, capsys: Shell, tmp_path: Path) -> Patient:
    return Patient(cluster.name_server, dict(cluster.brokers), java, capsys)


@ON_THE_CLOSED
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


@ON_THE_CLOSED
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


@ON_THE_CLOSED
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


@ON_THE_CLOSED
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


@ON_THE_CLOSED
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
}
WIPED = pytest.param(("wipeWritePerm",), id="wiped", marks=pytest.mark.xdist_group("lone_cluster"))


@pytest.mark.parametrize("closing", [*(pytest.param(words, id=name) for name, words in CLOSINGS.items()), WIPED])
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
        wait_until(lambda: [] == stock.find(f"g-{topic}"), "the name server has heard of the new queues")


@ON_THE_CLOSED
def test_a_delay_that_has_no_timer(closed: Patient, closed_cluster: Cluster, numbers: Any) -> None:
    """Ours sends it by a level then, up to two hours; Java's is refused."""
    topic = f"topic-{numbers()}"
    closed.admin.run("updateTopic", "-b", closed.brokers["broker-a"], "-t", topic)
    with pytest.raises(PeerError, match="timerWheelEnable"):
        closed.java.send(closed.name_server, topic, [Outgoing(body=b"x", delay_ms=3_000)])
    with pytest.raises(FrameworkError, match="2h"):
        closed.send(topic, delay="3h")

    closed.mend(only(closed.find(), "timerWheelEnable=false: delays take a level", "broker-a"))

    configuration = closed_cluster.directory / "conf" / "broker-a.conf"
    assert "timerWheelEnable=true" in configuration.read_text(), "for its restart"


# Clusters of their own


@pytest.fixture
def guarded(
    nursery: Nursery, tmp_path: Path, java: JavaPeer, capsys: Shell, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Patient]:
    """With access control. `doctor` and members ask as `app`, mqadmin as root."""
    with Cluster(tmp_path / "cluster", nursery, Shape(settings=ACCESS_CONTROL)) as cluster:
        patient = Patient(cluster.name_server, dict(cluster.addresses.brokers), java, capsys)
        for name, text in (("access_key", APP.name), ("secret_key", APP.password)):
            monkeypatch.setenv(f"FRAMEWORK_APP__CLUSTER__CREDENTIALS__{name.upper()}", text)
        patient.sign(ROOT)
        try:
            yield patient
        finally:
            (java.home / "conf" / "tools.yml").unlink()


def test_a_rule_that_shows_as_no_route(guarded: Patient, nursery: Nursery, tmp_path: Path) -> None:
    where = ("-b", guarded.brokers["broker-a"])
    guarded.admin.run("updateTopic", *where, "-t", "orders", "-r", "2", "-w", "2")
    row = only(guarded.find("billing", "--topic", "orders", code=ExitCode.FAILED), "it refuses what this client asks")
    assert "User:app is not found" in row["finding"]
    guarded.admin.run("createUser", *where, "-u", APP.name, "-p", APP.password, "-t", "Normal")

    rows = guarded.find("billing", "--topic", "orders", code=ExitCode.FAILED)
    guarded.mend(only(rows, "User:app has no permission to access Topic:orders"))

    assert "severe" not in str(guarded.find("billing", "--topic", "orders"))
    guarded.java.send(guarded.name_server, "orders", [Outgoing(body=b"x")] * 4, user=ROOT)
    application = Application(nursery, tmp_path, guarded.name_server, topic="orders", group="billing", failures=1)
    assert 8 == len(application.received(8))
    application.stop()


def test_an_address_that_cannot_be_reached(
    nursery: Nursery, tmp_path: Path, java: JavaPeer, capsys: Shell, numbers: Any
) -> None:
    """As where brokerIP1 is an address inside of a container."""
    inside = "127.0.0.9"
    with Cluster(tmp_path / "cluster", nursery, Shape(settings={"brokerIP1": inside})) as cluster:
        address = cluster.addresses.brokers["broker-a"]
        patient = Patient(cluster.name_server, {"broker-a": address.replace(inside, "127.0.0.1")}, java, capsys)
        row = only(patient.find(code=ExitCode.FAILED), "cannot be reached from here", f"broker-a {address}")
        assert "severe" == row["severity"]

        option = re.search(r"--set '(cluster\.address_map=.*?)'", row["remedy"])
        assert option
        mapped = option[1].replace("HOST:PORT", patient.brokers["broker-a"])
        assert "severe" not in str(patient.find("--set", mapped))

        patient.set("brokerIP1", "127.0.0.1")
        cluster.kill("broker-a")
        cluster.shape.settings["brokerIP1"] = "127.0.0.1"  # type: ignore[index]  # a dictionary
        cluster.start()
        assert "severe" not in str(patient.find())


@pytest.fixture
def pair(nursery: Nursery, tmp_path: Path, java: JavaPeer, capsys: Shell) -> Iterator[Patient]:
    """Two brokers, which write into memory of their own in place of the page cache."""
    settings = {
        "transientStorePoolEnable": "true",
        "transientStorePoolSize": "16",
        "mappedFileSizeCommitLog": "1048576",
    }
    with Cluster(tmp_path / "cluster", nursery, Shape(brokers=2, settings=settings)) as cluster:
        yield Patient(cluster.name_server, dict(cluster.addresses.brokers), java, capsys)


def test_brokers_that_lose_messages_or_refuse_them(pair: Patient, numbers: Any) -> None:
    topic, group = f"topic-{numbers()}", f"group-{numbers()}"
    pair.admin.run("updateTopic", "-c", "DefaultCluster", "-t", topic, "-r", "1", "-w", "1")
    assert {"broker-a", "broker-b"} == {
        row["where"] for row in pair.find() if row["finding"].startswith("transientStorePoolEnable=true: ")
    }

    pair.set("maxMessageSize", "1000")
    with pytest.raises(PeerError, match="msg body length limit 1000B"):
        pair.java.send(pair.name_server, topic, [Outgoing(body=b"x" * 2000)], queue=("broker-a", 0))
    pair.mend(only(pair.find(), "maxMessageSize=1000: it refuses larger messages, which broker-b takes up to 4194304"))
    pair.java.send(pair.name_server, topic, [Outgoing(body=b"x" * 2000)], queue=("broker-a", 0))

    with Reader(ReaderSettings((pair.name_server,))) as reader:
        queue = next(each for each in reader.queues(topic) if each.broker == "broker-a")
        reader.commit(group, queue, 0)
        wait_until(lambda: reader.max_offset(queue) == 1, "the message is there")
        pair.set("fileReservedTime", "0")
        row = only(pair.find(group), "the broker deletes what is older than 0 h", f"{group} at broker-a")
    pair.mend(row)
    kept = pair.admin.run("getBrokerConfig", "-b", pair.brokers["broker-a"])
    assert re.search(r"^fileReservedTime += +72$", kept, re.MULTILINE)


def test_a_name_server_that_does_not_know_the_broker(
    nursery: Nursery, tmp_path: Path, java: JavaPeer, capsys: Shell
) -> None:
    other = Shape(brokers=0)
    with Cluster(tmp_path / "one", nursery) as one, Cluster(tmp_path / "other", nursery, other) as lonely:
        patient = Patient(one.name_server, dict(one.addresses.brokers), java, capsys)
        both = f"{one.name_server},{lonely.name_server}"
        rows = found(capsys, both, code=ExitCode.FAILED)
        patient.mend(only(rows, "a name server does not know broker-a", f"name server {lonely.name_server}"))

        wait_until(lambda: probe.known_brokers(lonely.name_server), "the broker registers there", 5 * PATIENCE_S)
        assert [] == found(capsys, both, code=ExitCode.CLEAN)

        lonely.kill("namesrv")
        assert "warning" == only(found(capsys, both, code=ExitCode.CLEAN), "a name server does not answer")["severity"]
