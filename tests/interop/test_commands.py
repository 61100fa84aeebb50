"""The commands that look at a cluster, against a real one and the box, with a Java member in the group."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from framework.cli import main
from framework.cli.exit_codes import ExitCode
from framework.reading import Reader, ReaderSettings
from tests.cli.processes import command as running_command
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.places import Place
from tests.patience import wait_until

pytestmark = pytest.mark.interop


def rows_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert ExitCode.CLEAN == main.run(list(arguments))
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


class Scene:
    """A topic of forty messages, and a Java member that has handled them and stored its offsets."""

    def __init__(self, place: Place, java: JavaPeer, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.topic = place.new_topic()
        self.group = f"members-of-{self.topic}"
        self.where = ("--name-server", place.name_server)
        java.fill(place.name_server, self.topic, 40, batch=1)  # so that each queue has some, and a stored offset
        self.member = java.consume(place.name_server, self.group, self.topic)
        self.member.received(40)
        wait_until(lambda: self.stored() == 40, "java stores its offsets")

    def rows(self) -> list[dict[str, Any]]:
        """Of its queues."""
        rows = rows_of(self._capsys, "lag", self.group, "--json", *self.where)
        return [row for row in rows if row["topic"] == self.topic]

    def stored(self) -> int:
        return sum(row["offset"] or 0 for row in self.rows())


@pytest.mark.xdist_group("lone_cluster")
def test_a_java_members_queues_lag_and_subscription_are_shown(
    place: Place, java: JavaPeer, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(place, java, capsys)
    topic, group, where, member, rows = scene.topic, scene.group, scene.where, scene.member, scene.rows
    found = rows()
    assert 40 == sum(row["end"] for row in found)
    assert 40 == sum(row["offset"] or 0 for row in found)
    assert {True} == {bool(row["owner"]) for row in found}
    of_all = [row for row in rows_of(capsys, "lag", "--json", *where) if (row["group"], row["topic"]) == (group, topic)]
    assert {row["queue"]: row["owner"] for row in found} == {row["queue"]: row["owner"] for row in of_all}
    (told,) = [row for row in rows_of(capsys, "groups", "--json", *where) if row["group"] == group]
    assert (1, 0, "up to date", 0) == (told["members"], told["lag"], told["state"], told["dead_letters"])
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
    place.shows(topic, 44)
    behind = rows()
    assert 4 == sum(row["lag"] or 0 for row in behind)
    assert {None} == {row["owner"] for row in behind}
    assert ExitCode.FAILED == main.run(["lag", group, "--fail-above", "3", *where])
    capsys.readouterr()


@pytest.mark.xdist_group("lone_cluster")
@pytest.mark.long
def test_a_reset_reaches_a_java_member_that_is_online(
    place: Place, java: JavaPeer, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(place, java, capsys)
    topic, group, where, member, stored = scene.topic, scene.group, scene.where, scene.member, scene.stored
    planned = rows_of(capsys, "reset", group, topic, "--to", "earliest", "--dry-run", "--json", *where)
    assert (40, 0) == tuple(sum(row[name] for row in planned) for name in ("again", "passed_over"))
    assert 40 == stored()

    rows_of(capsys, "reset", group, topic, "--to", "earliest", "--yes", "--json", *where)
    member.received(40)  # what is there is given out once more

    def pending() -> int:
        (row,) = [row for row in rows_of(capsys, "groups", "--json", *where) if row["group"] == group]
        return int(row["resets_pending"])

    wait_until(lambda: pending() == 0, "the reset to be taken")
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
    place.shows(f"%DLQ%{group}", 6)

    rows = rows_of(capsys, "dlq", "list", group, "--json", *where)
    assert [(topic, None, None)] * 6 == [(row["origin_topic"], row["reason"], row["error"]) for row in rows]
    assert ids == {row["message_id"] for row in rows}

    def replay(*more: str) -> dict[str, Any]:
        return rows_of(capsys, "dlq", "replay", group, "--yes", "--json", *more, *where)[-1]

    key = next(iter(sorted(ids)))
    assert key == rows_of(capsys, "dlq", "show", group, key, "--json", *where)[0]["message_id"]
    assert {"sent": 2, "skipped": 0, "failed": 0} == replay("--to-retry", "--limit", "2")
    again = {each.message_id for each in member.received(2)}
    dropped = rows_of(capsys, "dlq", "list", group, "--json", *where)[0]["message_id"]
    assert [{"count": 1}] == rows_of(
        capsys, "dlq", "drop", group, "--since", "-1h", "--limit", "1", "--yes", "--json", *where
    )
    left = [row["message_id"] for row in rows_of(capsys, "dlq", "list", group, "--json", *where)]
    assert ids == {*again, dropped, *left}
    assert {"sent": 3, "skipped": 0, "failed": 0} == replay()
    assert set(left) == {each.message_id for each in member.received(3)}
    assert {"sent": 0, "skipped": 0, "failed": 0} == replay()
    assert [] == rows_of(capsys, "dlq", "list", group, "--json", *where)
    member.leave()


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert ExitCode.CLEAN == main.run(list(arguments))
    return capsys.readouterr().out.splitlines()


FIELDS = {
    "topics": ["topic", "queues", "brokers", "in_s"],
    "groups": [
        "group", "members", "lag", "state", "retries_waiting", "dead_letters", "dead_last_hour", "failed_last_hour",
        "success_ago_s", "handlers_running", "oldest_handler_s", "handlers_hanging", "silent_members", "resets_pending",
        "troubles", "queues", "handled_s",
    ],
    "groups GROUP": ["topic", "broker", "queue", "offset", "end", "lag", "lag_s", "owner"],
    "lag": ["group", "topic", "broker", "queue", "offset", "end", "lag", "lag_s", "owner"],
    "lag GROUP": ["group", "topic", "broker", "queue", "offset", "end", "lag", "lag_s", "owner"],
    "tail TOPIC --from -3": [
        "topic", "broker", "queue", "offset", "message_id", "keys", "tags", "properties", "born", "stored", "body",
    ],
    "dlq list GROUP": [
        "message_id", "origin_topic", "origin_queue", "origin_offset", "attempts", "reason", "error", "dead_at", "keys",
        "body", "line",
    ],
    "trace ID --topic TOPIC": ["at", "what", "where", "who", "elapsed_ms", "result"],
    "doctor GROUP": ["finding", "where", "remedy", "severity"],
    "send TOPIC hello": ["topic", "broker", "queue", "offset", "message_id"],
    "reset GROUP TOPIC --to earliest --yes": ["topic", "broker", "queue", "before", "after", "again", "passed_over"],
    "dlq replay GROUP --limit 1 --yes": ["topic", "count"],
    "dlq drop GROUP --limit 1 --yes": ["broker", "queue", "before", "after"],
}  # fmt: skip
"""Each command -> the fields of its first line; those that change something last, in this order."""
LAST = {"dlq replay GROUP --limit 1 --yes": ["sent", "skipped", "failed"]}


@pytest.mark.xdist_group("lone_cluster")
def test_every_command_for_people_and_for_programs(
    place: Place, java: JavaPeer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same call with and without `--json`: a verdict or a table with a title, and an object a line."""
    scene = Scene(place, java, capsys)
    with Reader(ReaderSettings((place.name_server,))) as reader:
        queues = reader.queues(scene.topic)
        for offset in range(4):
            assert reader.send_back(scene.group, queues[0], offset, delay_level=-1)
    (row,) = rows_of(capsys, "tail", scene.topic, "--from", "-1", "--json", *scene.where)
    values = {"GROUP": scene.group, "TOPIC": scene.topic, "ID": row["message_id"]}
    seen: dict[str, list[str]] = {}
    for command, fields in FIELDS.items():
        words = [values.get(word, word) for word in command.split()]
        seen[command] = said(capsys, *words, *scene.where)
        rows = rows_of(capsys, *words, "--json", *scene.where)
        assert fields == list(rows[0]), command
        assert LAST.get(command, fields) == list(rows[-1]), command
    scene.member.leave()

    group, topic = scene.group, scene.topic
    assert ["TOPIC", "QUEUES", "IN/s", "BROKERS"] == seen["topics"][1].split()
    assert ["GROUP", "STATE", "MEMBERS", "QUEUES", "LAG", "HANDLED/s", "RETRIES"] == seen["groups"][1].split()[:7]
    verdict = f"{group}: 4 dead letters in the last hour; 1 member"
    assert verdict == seen["groups GROUP"][0] == seen["lag GROUP"][0]
    assert " on 1 broker" in seen["topics"][0]
    assert " group" in seen["groups"][0]
    assert 3 == len(seen["tail TOPIC --from -3"])
    assert f"{group}: 4 dead letters" == seen["dlq list GROUP"][0]
    assert f"{row['message_id']}: of {topic}, read by 1 group" == seen["trace ID --topic TOPIC"][0]
    assert seen["doctor GROUP"][0].startswith(f"{group}: 1 finding, none severe; ")
    assert seen["send TOPIC hello"][0].startswith(f"sent to {topic} broker-a:")
    assert seen["reset GROUP TOPIC --to earliest --yes"][0].startswith(f"{group}: ")
    assert "replayed: sent=1 skipped=0 failed=0" == seen["dlq replay GROUP --limit 1 --yes"][-1]
    assert seen["dlq drop GROUP --limit 1 --yes"][0].startswith(f"{group}: 1 dead letter passed over")


def test_lines_are_sent_and_read_again_by_json(
    place: Place, java: JavaPeer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What `tail --json` prints, `send --ndjson` takes."""
    topic, copy = place.new_topic(), place.new_topic()
    where = ("--name-server", place.name_server)
    java.fill(place.name_server, topic, 40, batch=1)
    place.shows(topic, 40)
    lines = tmp_path / "lines"
    lines.write_text("\n".join(said(capsys, "tail", topic, "--from", "earliest", "--json", *where)))

    assert 40 == len(rows_of(capsys, "send", copy, "--ndjson", "--file", str(lines), "--json", *where))
    place.shows(copy, 40)

    first, second = (rows_of(capsys, "tail", each, "--from", "earliest", "--json", *where) for each in (topic, copy))
    assert sorted(row["body"] for row in first) == sorted(row["body"] for row in second)


def test_a_trace_that_java_wrote_names_its_producer_and_each_attempt(
    place: Place, java: JavaPeer, capsys: pytest.CaptureFixture[str]
) -> None:
    """In RocketMQ's own trace topic, which both clients write unless they are told another one."""
    topic = place.new_topic()
    group, where = f"members-of-{topic}", ("--name-server", place.name_server)
    member = java.consume(place.name_server, group, topic, failures=1, traced=True)
    (sent,) = java.send(place.name_server, topic, [Outgoing(body=b"hello")], traced=True)
    member.received(2)

    def rows() -> list[dict[str, Any]]:
        return rows_of(capsys, "trace", sent.message_id, "--topic", topic, "--json", *where)

    wanted = ["sent", "attempt 1", "attempt 2"]

    def is_whole() -> bool:
        """Java tells in two messages that an attempt began and how it ended."""
        told.clear()
        told.update({row["what"]: row for row in rows() if row["what"] in wanted})
        return wanted == list(told) and all(
            row["who"] is not None and row["elapsed_ms"] is not None for row in told.values()
        )

    told: dict[str, dict[str, Any]] = {}
    wait_until(is_whole, "java's traces")
    member.leave()
    assert "interop-producer" in told["sent"]["who"]
    assert group in told["attempt 1"]["who"]
    assert ["success", "failed", "success"] == [told[what]["result"].split(":")[0] for what in wanted]
    assert told["sent"]["at"] <= told["attempt 1"]["at"] < told["attempt 2"]["at"]


def test_a_lag_that_is_watched_is_shown_again_and_again(
    place: Place, java: JavaPeer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Twice, and not in its first two looks: a member of Java that is asked may be silent for some seconds."""
    scene = Scene(place, java, capsys)
    watch = ("lag", scene.group, "--watch", *scene.where)
    verdict = f"{scene.group}: up to date; 1 member"
    with running_command(*watch, folder=tmp_path) as watching:
        while watching.lines.count(verdict) < 2:
            watching.line()
        assert ["TOPIC", "BROKER", "QUEUE"] == watching.line().split()[:3]
        watching.end()

    with running_command(*watch, "--json", folder=tmp_path) as watching:
        rows = [json.loads(watching.line())]
        while [_queue_of(row) for row in rows].count(_queue_of(rows[0])) < 2:
            rows.append(json.loads(watching.line()))
        watching.end()
    assert {tuple(FIELDS["lag GROUP"])} == {tuple(row) for row in rows}
    scene.member.leave()


def _queue_of(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["topic"], row["broker"], row["queue"]


def test_a_dead_letter_is_shown_for_people(place: Place, java: JavaPeer, capsys: pytest.CaptureFixture[str]) -> None:
    scene = Scene(place, java, capsys)
    with Reader(ReaderSettings((place.name_server,))) as reader:
        assert reader.send_back(scene.group, reader.queues(scene.topic)[0], 0, delay_level=-1)
    place.shows(f"%DLQ%{scene.group}", 1)
    (letter,) = rows_of(capsys, "dlq", "list", scene.group, "--json", *scene.where)
    shown = said(capsys, "dlq", "show", scene.group, letter["message_id"], *scene.where)
    scene.member.leave()

    fields = {name: text.strip() for name, _, text in (line.partition(" ") for line in shown)}
    assert (letter["message_id"], scene.topic, "-") == (
        fields["message_id"], fields["origin_topic"], fields["reason"]
    )  # fmt: skip
    assert letter["body"].splitlines()[0] == shown[-1]


def test_a_trace_of_a_real_java_member_names_each_of_its_attempts(
    place: Place, java: JavaPeer, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its copies: this member writes no trace."""
    topic = place.new_topic()
    group = f"members-of-{topic}"
    where = ("--name-server", place.name_server)
    (row,) = rows_of(capsys, "send", topic, "hello", "--json", *where)
    member = java.consume(place.name_server, group, topic, failures=1)
    member.received(2)

    def whats() -> list[str]:
        rows = rows_of(capsys, "trace", row["message_id"], "--topic", topic, "--json", *where)
        return [each["what"] for each in rows]

    wait_until(lambda: whats() == ["stored", "retry 1", "group"], "the broker's index")
    member.leave()
