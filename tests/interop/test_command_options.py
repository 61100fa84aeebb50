"""What the daily commands' options choose, against a real cluster and the box."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from framework.cli import main
from framework.cli.exit_codes import ExitCode
from framework.reading import Reader, ReaderSettings
from tests.cli.processes import command as running_command
from tests.interop.cluster import Addresses
from tests.interop.places import Place
from tests.patience import wait_until

pytestmark = pytest.mark.interop


class Desk:
    """A topic, and the commands that are asked about it."""

    def __init__(self, place: Place, capsys: pytest.CaptureFixture[str]) -> None:
        self.topic = place.made_topic(queues=4)
        self.where = ("--name-server", place.name_server)
        self.place, self.name_server = place, place.name_server
        self._capsys = capsys

    def rows(self, *words: str, code: ExitCode = ExitCode.CLEAN) -> list[dict[str, Any]]:
        self._capsys.readouterr()
        assert code == main.run([*words, "--json", *self.where])
        return [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]

    def said(self, *words: str) -> list[str]:
        self._capsys.readouterr()
        assert ExitCode.CLEAN == main.run([*words, *self.where])
        return self._capsys.readouterr().out.splitlines()

    def bodies(self, *words: str) -> list[str]:
        """Of what `tail` shows, for programs and for people alike."""
        found = [row["body"] for row in self.rows("tail", self.topic, *words)]
        assert found == [line.split()[-1] for line in self.said("tail", self.topic, *words)]
        return sorted(found)

    def send(self, body: str, *words: str) -> dict[str, Any]:
        (row,) = self.rows("send", self.topic, body, *words)
        return row


@pytest.fixture
def desk(place: Place, capsys: pytest.CaptureFixture[str]) -> Desk:
    return Desk(place, capsys)


def test_tail_chooses_by_key_tag_condition_place_and_number(desk: Desk) -> None:
    for number in range(6):
        tag = "odd" if number % 2 else "even"
        desk.send(f"m{number}", "--key", f"k{number}", "--tag", tag, "--property", f"n={number}")

    desk.place.shows(desk.topic, 6)
    everything = ("--from", "earliest")
    assert ["m3"] == desk.bodies(*everything, "--key", "k3")
    assert ["m1", "m3", "m5"] == desk.bodies(*everything, "--tag", "odd")
    assert ["m4", "m5"] == desk.bodies(*everything, "--sql", "n > 3")
    assert 2 == len(desk.bodies(*everything, "--limit", "2"))
    assert [f"m{number}" for number in range(6)] == desk.bodies("--from", "-1h")
    assert ["m4", "m5"] == desk.bodies("--from", "-2")
    assert [] == desk.bodies("--from", "latest")


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_tail_follows_what_comes(desk: Desk, more: tuple[str, ...], tmp_path: Path) -> None:
    desk.send("before")
    words = ("tail", desk.topic, "--from", "earliest", "--follow", *more, *desk.where)
    with running_command(*words, folder=tmp_path) as following:
        assert "before" in following.line()
        desk.send("behind")
        assert "behind" in following.line()
        following.end()


def test_send_keeps_order_by_a_key_and_takes_its_time(desk: Desk) -> None:
    queues = {desk.send(f"of ana {number}", "--order-key", "ana")["queue"] for number in range(3)}
    assert 1 == len(queues)

    late = desk.send("late", "--delay", "2s", "--property", "a=b")
    assert late["recall_handle"]

    def chosen() -> list[dict[str, Any]]:
        return desk.rows("tail", desk.topic, "--from", "earliest", "--sql", "a = 'b'")

    wait_until(lambda: bool(chosen()), "it is delivered")
    assert [late["message_id"]] == [row["message_id"] for row in chosen()]


def test_dlq_chooses_by_key_time_reason_and_number(desk: Desk) -> None:
    group = f"readers-of-{desk.topic}"
    sent = [desk.send(f"m{number}", "--key", f"k{number}") for number in range(3)]
    desk.place.shows(desk.topic, 3)
    with Reader(ReaderSettings((desk.name_server,))) as reader:
        for row in sent:
            (queue,) = [each for each in reader.queues(desk.topic) if each.number == row["queue"]]
            assert reader.send_back(group, queue, row["offset"], delay_level=-1)

    def ids(*words: str) -> set[str]:
        return {row["message_id"] for row in desk.rows("dlq", "list", group, *words)}

    wait_until(lambda: 3 == len(ids()), "all are dead letters")
    assert {sent[1]["message_id"]} == ids("--key", "k1")
    assert 2 == len(ids("--limit", "2"))
    assert 3 == len(ids("--since", "-1h"))
    assert set() == ids("--reason", "KeyError")

    assert [{"topic": desk.topic, "count": 3}] == desk.rows("dlq", "replay", group, "--dry-run")
    assert 3 == len(ids()), "nothing was changed"

    def replay(key: str) -> dict[str, Any]:
        return desk.rows("dlq", "replay", group, "--key", key, "--rate", "50/s", "--yes")[-1]

    assert {"sent": 1, "skipped": 0, "failed": 0} == replay("k2")
    assert {"sent": 0, "skipped": 0, "failed": 0} == replay("k2")
    assert {row["message_id"] for row in sent[:2]} == ids(), "though those before it are not done"
    assert {"sent": 1, "skipped": 0, "failed": 0} == replay("k0")
    assert {sent[1]["message_id"]} == ids()
    assert 1 <= sum(row["after"] - row["before"] for row in desk.rows("dlq", "drop", group, "--dry-run")) <= 2
    desk.rows("dlq", "drop", group, "--yes")
    assert set() == ids()
    assert 3 == len(ids("--all"))


def test_a_brokers_address_as_name_server_is_called_that(
    cluster: Addresses, capsys: pytest.CaptureFixture[str]
) -> None:
    """The port that is seen first in a broker's log."""
    where = ("--name-server", cluster.brokers["broker-a"])
    for words in (("topics",), ("lag",), ("send", "orders", "hello")):
        capsys.readouterr()
        assert ExitCode.FAILED == main.run([*words, *where])
        *_, error, hint = capsys.readouterr().err.splitlines()
        assert " not supported; name servers know it: is this the address of a broker or a proxy? [FA-C005]" in error
        assert "hint: framework-app explain FA-C005" == hint
