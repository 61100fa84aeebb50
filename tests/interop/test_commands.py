"""The commands that look at a cluster, against a real one and the box, with a Java member in the group."""

from __future__ import annotations

import json
from typing import Any

import pytest

from framework.cli import main
from framework.cli.exit_codes import ExitCode
from framework.reading import Reader, ReaderSettings
from tests.interop.java_peer import JavaPeer
from tests.interop.places import Place
from tests.interop.processes import wait_until

pytestmark = pytest.mark.interop


def rows_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert ExitCode.CLEAN == main.run(list(arguments))
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_java_members_queues_lag_and_subscription_are_shown(
    place: Place, java: JavaPeer, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = place.new_topic()
    group = f"members-of-{topic}"
    where = ("--name-server", place.name_server)
    java.fill(place.name_server, topic, 40, batch=1)  # so that each queue has some, and a stored offset
    member = java.consume(place.name_server, group, topic)
    member.received(40)

    def rows() -> list[dict[str, Any]]:
        return [row for row in rows_of(capsys, "lag", group, "--json", *where) if row["topic"] == topic]

    wait_until(lambda: sum(row["offset"] or 0 for row in rows()) == 40, "java stores its offsets", 30)
    found = rows()
    assert 40 == sum(row["end"] for row in found)
    assert 40 == sum(row["offset"] or 0 for row in found)
    assert {True} == {bool(row["owner"]) for row in found}
    assert {"group": group, "members": 1, "lag": 0} in rows_of(capsys, "groups", "--json", *where)
    assert ExitCode.CLEAN == main.run(["groups", group, *where])
    shown = capsys.readouterr().out
    assert f"{group}: up to date; 1 member" in shown
    assert "JAVA" in shown
    assert f"{topic}: *" in shown
    assert topic in {row["topic"] for row in rows_of(capsys, "topics", "--json", *where)}

    tailed = rows_of(capsys, "tail", topic, "--from", "earliest", "--tag", "fill", "--json", *where)
    assert sorted(f"m{number}" for number in range(40)) == sorted(row["body"].split()[0] for row in tailed)
    assert tailed == sorted(tailed, key=lambda row: row["stored"])
    assert 3 == len(rows_of(capsys, "tail", topic, "--from", "-3", "--json", *where))

    member.leave()
    java.fill(place.name_server, topic, 4)
    behind = rows()
    assert 4 == sum(row["lag"] or 0 for row in behind)
    assert {None} == {row["owner"] for row in behind}
    assert ExitCode.FAILED == main.run(["lag", group, "--fail-above", "3", *where])
    capsys.readouterr()


def test_a_reset_reaches_a_java_member_that_is_online(
    place: Place, java: JavaPeer, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = place.new_topic()
    group = f"members-of-{topic}"
    where = ("--name-server", place.name_server)
    java.fill(place.name_server, topic, 40, batch=1)
    member = java.consume(place.name_server, group, topic)
    member.received(40)

    def stored() -> int:
        rows = rows_of(capsys, "lag", group, "--json", *where)
        return sum(row["offset"] or 0 for row in rows if row["topic"] == topic)

    wait_until(lambda: stored() == 40, "java stores its offsets", 30)
    planned = rows_of(capsys, "reset", group, topic, "--to", "earliest", "--dry-run", "--json", *where)
    assert (40, 0) == tuple(sum(row[name] for row in planned) for name in ("again", "passed_over"))
    assert 40 == stored()

    rows_of(capsys, "reset", group, topic, "--to", "earliest", "--yes", "--json", *where)
    member.received(40)  # what is there is given out once more
    member.leave()


def test_what_is_sent_reaches_a_java_member(place: Place, java: JavaPeer, capsys: pytest.CaptureFixture[str]) -> None:
    topic = place.new_topic()
    where = ("--name-server", place.name_server)
    (row,) = rows_of(capsys, "send", topic, "hello", "--key", "k1", "--tag", "paid", "--json", *where)
    member = java.consume(place.name_server, f"members-of-{topic}", topic)

    (message,) = member.received(1)
    assert (b"hello", "paid", row["message_id"]) == (message.body, message.properties["TAGS"], message.message_id)
    member.leave()


def test_dead_letters_are_replayed_once_to_a_java_member(
    place: Place, java: JavaPeer, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = place.new_topic()
    group = f"members-of-{topic}"
    where = ("--name-server", place.name_server)
    java.fill(place.name_server, topic, 6, batch=1)
    member = java.consume(place.name_server, group, topic)
    ids = {each.message_id for each in member.received(6)}
    with Reader(ReaderSettings((place.name_server,))) as reader:
        for queue in reader.queues(topic):
            for offset in range(reader.min_offset(queue), reader.max_offset(queue)):
                assert reader.send_back(group, queue, offset, delay_level=-1)

    rows = rows_of(capsys, "dlq", "list", group, "--json", *where)
    assert [(topic, None, None)] * 6 == [(row["origin_topic"], row["reason"], row["error"]) for row in rows]
    assert ids == {row["message_id"] for row in rows}

    def replay(*more: str) -> dict[str, Any]:
        return rows_of(capsys, "dlq", "replay", group, "--yes", "--json", *more, *where)[-1]

    key = next(iter(sorted(ids)))
    assert key == rows_of(capsys, "dlq", "show", group, key, "--json", *where)[0]["message_id"]
    assert {"sent": 2, "skipped": 0, "failed": 0} == replay("--to-retry", "--limit", "2")
    again = {each.message_id for each in member.received(2)}
    assert {"sent": 4, "skipped": 0, "failed": 0} == replay()
    assert ids == again | {each.message_id for each in member.received(4)}
    assert {"sent": 0, "skipped": 0, "failed": 0} == replay()
    assert [] == rows_of(capsys, "dlq", "list", group, "--json", *where)
    member.leave()
