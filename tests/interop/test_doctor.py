"""`doctor` against a real cluster, and the box beside it, with Java members that do not fit together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from framework.cli import main
from framework.cli.exit_codes import ExitCode
from framework.model.queue import MessageQueue
from framework.reading import Reader, ReaderSettings
from framework.wire.bodies.running import ProcessQueueInfo
from tests.admin.members import Member, online
from tests.interop.cluster import Addresses
from tests.interop.java_peer import JavaPeer
from tests.interop.mqadmin import Admin, changed
from tests.interop.places import Place
from tests.patience import wait_until

pytestmark = pytest.mark.interop

Shell = pytest.CaptureFixture[str]


def found(shell: Shell, name_server: str, *words: str, code: ExitCode) -> list[dict[str, Any]]:
    """What it says as JSON; and it says as many things to people, and ends alike."""
    where = ("--name-server", name_server, *(() if "--stuck-after" in words else ("--stuck-after", "0s")))
    shell.readouterr()  # what members logged
    assert code == main.run(["doctor", *words, *where])
    verdict, *lines = shell.readouterr().out.splitlines()
    assert code == main.run(["doctor", *words, "--json", *where])
    rows = [json.loads(line) for line in shell.readouterr().out.splitlines()]
    findings = [row for row in rows if row["severity"] != "unknown"]
    assert len(findings) == sum(line.startswith("  remedy ") for line in lines)
    assert f"{len(findings)} finding" in verdict or "nothing found; " in verdict
    return rows


def only(rows: list[dict[str, Any]], *words: str) -> dict[str, Any]:
    (row,) = [row for row in rows if all(word in f"{row['finding']} {row['where']}" for word in words)]
    return row


@pytest.mark.xdist_group("lone_cluster")
def test_a_group_that_is_well(place: Place, java: JavaPeer, capsys: Shell) -> None:
    topic = place.new_topic()
    group = f"members-of-{topic}"
    java.fill(place.name_server, topic, 40, batch=1)
    member = java.consume(place.name_server, group, topic)
    member.received(40)

    assert [] == found(capsys, place.name_server, group, code=ExitCode.CLEAN)
    assert [] == [row for row in found(capsys, place.name_server, code=ExitCode.CLEAN) if row["where"] == "broker-a"]
    member.leave()


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"tags": "red"}, "members subscribe differently"),
        ({"broadcast": True}, "members differ in their model"),
        ({"orderly": True}, "orderly and concurrent members"),
        ({"strategy": "circle"}, "different strategies"),
    ],
)
def test_java_members_that_differ(
    place: Place, java: JavaPeer, capsys: Shell, other: dict[str, Any], words: str
) -> None:
    topic = place.new_topic()
    group = f"members-of-{topic}"
    java.fill(place.name_server, topic, 4, batch=1)
    members = [java.consume(place.name_server, group, topic), java.consume(place.name_server, group, topic, **other)]

    assert "severe" == only(found(capsys, place.name_server, group, code=ExitCode.FAILED), words)["severity"]
    for member in members:
        member.leave()


def test_processes_with_one_client_id_and_more_of_them_than_queues(place: Place, java: JavaPeer, capsys: Shell) -> None:
    topic = place.new_topic()
    group = f"members-of-{topic}"
    java.fill(place.name_server, topic, 40, batch=1)
    queues = len(_queues(place, topic))
    members = [Member(client_id=f"m{number}", group=group, wants={topic: "*"}) for number in range(queues + 1)]

    with online(place.name_server, *members, Member(client_id="m0", group=group, wants={topic: "*"})):
        rows = found(capsys, place.name_server, group, code=ExitCode.FAILED)

    assert "client id m0" in only(rows, "several connections have one client id")["where"]
    assert "warning" == only(rows, f"{queues + 1} members share {queues} queues")["severity"]


def _queues(place: Place, topic: str) -> list[MessageQueue]:
    with Reader(ReaderSettings((place.name_server,))) as reader:
        return reader.queues(topic)


def test_a_group_that_stands_behind_one_message_while_dead_letters_grow(
    place: Place, java: JavaPeer, capsys: Shell
) -> None:
    topic = place.new_topic()
    group = f"members-of-{topic}"
    java.fill(place.name_server, topic, 40, batch=1)
    place.shows(topic, 40)
    with Reader(ReaderSettings((place.name_server,))) as reader:
        queue = reader.queues(topic)[0]
        reader.commit(group, queue, 2)
        assert reader.send_back(group, queue, 0, delay_level=-1)
        wait_until(lambda: any(map(reader.max_offset, reader.queues(f"%DLQ%{group}"))), "the dead letter")
    held = {queue: ProcessQueueInfo(commit_offset=2, cached_offset_min=2, cached_count=3)}

    with online(place.name_server, Member(client_id="m1", group=group, wants={topic: "*"}, queues=lambda: held)):
        rows = found(capsys, place.name_server, group, code=ExitCode.CLEAN)

    assert f"{topic} broker-a:{queue.number}, member m1" == only(rows, "the queue stands at offset 2")["where"]
    assert f"framework-app dlq list {group}" in only(rows, "dead letters grow: 1 within the last hour")["remedy"]


@pytest.mark.xdist_group("lone_cluster")
@pytest.mark.parametrize(
    ("name", "text", "usual", "words", "code"),
    [
        ("autoCreateSubscriptionGroup", "false", "true", "a new group gets nothing", ExitCode.CLEAN),
        ("enablePropertyFilter", "false", "true", "a consumer with a SQL92 filter is refused", ExitCode.CLEAN),
        ("brokerPermission", "4", "6", "the broker may not be written", ExitCode.FAILED),
    ],
)
def test_what_a_real_brokers_settings_say(
    admin: Admin, cluster: Addresses, java: JavaPeer, numbers: Any, capsys: Shell,
    name: str, text: str, usual: str, words: str, code: ExitCode,
) -> None:  # fmt: skip
    """And the remedy is a command that mqadmin takes."""
    topic = f"topic-{numbers()}"
    java.fill(cluster.name_server, topic, 4, batch=1)
    with Reader(ReaderSettings((cluster.name_server,))) as reader:
        reader.commit(f"readers-of-{topic}", reader.queues(topic)[0], reader.max_offset(reader.queues(topic)[0]))

    with changed(admin, cluster, name, text, usual):
        row = only(found(capsys, cluster.name_server, f"readers-of-{topic}", code=code), words, "broker-a")
        admin.paste(row["remedy"])
        after = found(capsys, cluster.name_server, f"readers-of-{topic}", code=ExitCode.CLEAN)
        assert [] == [row for row in after if words in row["finding"]]


def test_a_real_group_that_keeps_no_retry(
    admin: Admin, cluster: Addresses, java: JavaPeer, numbers: Any, capsys: Shell
) -> None:
    topic = f"topic-{numbers()}"
    group = f"readers-of-{topic}"
    java.fill(cluster.name_server, topic, 4, batch=1)
    admin.run("updateSubGroup", "-b", cluster.brokers["broker-a"], "-g", group, "-q", "0")

    row = only(found(capsys, cluster.name_server, group, "--topic", topic, code=ExitCode.FAILED), "retryQueueNums=0")
    admin.paste(row["remedy"])

    assert [] == found(capsys, cluster.name_server, group, "--topic", topic, code=ExitCode.CLEAN)


def test_a_real_topics_permission_that_shows_as_no_route(
    admin: Admin, cluster: Addresses, new_topic: Any, numbers: Any, capsys: Shell
) -> None:
    topic, group = new_topic(), f"readers-{numbers()}"
    admin.run("updateTopicPerm", "-b", cluster.brokers["broker-a"], "-t", topic, "-p", "2")

    rows = found(capsys, cluster.name_server, group, "--topic", topic, "--topic", f"no-{topic}", code=ExitCode.FAILED)

    assert "severe" == only(rows, f"{topic} on broker-a", "consumers see no queue of it")["severity"]
    assert "warning" == only(rows, f"no-{topic}", "the topic does not exist")["severity"]
