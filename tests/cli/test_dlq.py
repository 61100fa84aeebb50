"""`dlq`: what it prints of dead letters, for people and for programs."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from itertools import count
from types import SimpleNamespace

import pytest

from framework import Message
from framework.admin.dead_letters import Replayed
from framework.cli import main
from framework.cli.commands import dlq
from framework.cli.exit_codes import ExitCode
from framework.model.queue import MessageQueue
from framework.net.real_clock import RealClock
from framework.reading import Reader, ReaderSettings
from tests.reading.threads import ThreadBox, texts, thread_box

_NUMBERS = count()


def letter(topic: str, n: int, error: str = "KeyError", reason: str = "'card'") -> Message:
    words = {
        "DEAD_LETTER_REASON": reason, "DEAD_LETTER_ERROR": error, "DEAD_LETTER_TIME": str(1_700_000_000_000 + n),
        "DEAD_LETTER_ATTEMPTS": "3", "DEAD_LETTER_ORIGIN": f"orders@broker-a:2:{n}",
        "DEAD_LETTER_LINE": f"shop/{error}.py:41",
    }  # fmt: skip
    return Message(topic, f"order {n}".encode(), keys=[f"k{n}"], message_id=f"ID{n}", properties=words)


@pytest.fixture(scope="module")
def box() -> Iterator[ThreadBox]:
    with thread_box() as box:
        topic = "%DLQ%billing"
        box.send(topic, [letter(topic, n) for n in range(3)], queue=0)
        box.send(topic, [letter(topic, 3, "TimeoutError", "no answer in 30 s")], queue=0)
        box.send(topic, [Message(topic, b"\xff", message_id="ID4")], queue=0)  # as of Java: no word
        yield box


def said(box: ThreadBox, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> list[str]:
    assert code == main.run(["dlq", *words, "--name-server", box.address])
    return capsys.readouterr().out.splitlines()


def test_the_verdict_is_first_then_the_causes(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    verdict, title, *rows = said(box, capsys, "list", "billing")

    assert "billing: 5 dead letters" == verdict
    assert ["COUNT", "ERROR", "FIRST", "LAST", "ATTEMPTS", "LINE", "REASON"] == title.split()
    first, last = "2023-11-14T22:13:20.000Z", "2023-11-14T22:13:20.002Z"
    assert ["3", "KeyError", first, last, "3", "shop/KeyError.py:41", "'card'"] == rows[0].split()
    assert rows[1].endswith("no answer in 30 s")
    assert ["1", "-"] == rows[2].split()[:2]
    assert "-" == rows[2].split()[-1], "an unknown reason is no empty one"


def test_the_json_has_the_fields_of_the_contract(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [json.loads(line) for line in said(box, capsys, "list", "billing", "--json")]

    fields = ["message_id", "origin_topic", "origin_queue", "origin_offset", "attempts", "reason", "error", "dead_at"]
    assert [*fields, "keys", "body", "line"] == list(rows[0])
    values = [
        "ID0",
        "orders",
        2,
        0,
        3,
        "'card'",
        "KeyError",
        "2023-11-14T22:13:20.000Z",
        ["k0"],
        "order 0",
        "shop/KeyError.py:41",
    ]
    assert values == list(rows[0].values())
    assert ("ID4", None, None, None, "/w==") == tuple(
        rows[4][name] for name in ("message_id", "origin_topic", "reason", "error", "body_base64")
    )


def test_filters_choose(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    assert "billing: 3 of 5 dead letters" == said(box, capsys, "list", "billing", "--reason", "KeyError")[0]
    assert "billing: 1 of 5 dead letters" == said(box, capsys, "list", "billing", "--reason", r"~\d+ s$")[0]
    assert "billing: 3 of 5 dead letters" == said(box, capsys, "list", "billing", "--reason", "KeyError.py:41")[0]
    assert 2 == len(said(box, capsys, "list", "billing", "--json", "--limit", "2"))
    (row,) = said(box, capsys, "list", "billing", "--json", "--since", "-1h")
    assert "ID4" == json.loads(row)["message_id"]
    (row,) = said(box, capsys, "list", "billing", "--json", "--key", "k2")
    assert "ID2" == json.loads(row)["message_id"]


def test_one_is_shown_with_its_properties_and_its_body(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(box, capsys, "show", "billing", "ID3")
    assert ["error", "TimeoutError"] in [line.split() for line in lines]
    assert ["place", "%DLQ%billing@broker-a:0:3"] in [line.split() for line in lines]
    assert "  DEAD_LETTER_ATTEMPTS=3" in lines
    assert "order 3" == lines[-1]
    (row,) = (json.loads(line) for line in said(box, capsys, "show", "billing", "ID3", "--json"))
    assert ("order 3", "k3") == (row["body"], row["properties"]["KEYS"])
    assert ExitCode.FAILED == main.run(["dlq", "show", "billing", "ID9", "--json", "--name-server", box.address])
    found = json.loads(capsys.readouterr().err)
    assert ("FA-C013", True) == (found["id"], "billing has no dead letter ID9; " in found["error"])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["show", "billing"], "show: say which one"),
        (["show", "billing", "ID1", "--limit", "3"], "show takes no --limit"),
        (["list", "billing", "ID1"], "list takes no message id"),
        (["list", "billing", "--since", "earliest"], "'earliest' is no time"),
        (["list", "billing", "--rate", "5"], "list takes no --rate"),
        (["list", "billing", "--yes"], "list takes no --yes"),
        (["drop", "billing", "--rate", "5"], "drop takes no --rate"),
        (["replay", "billing", "--rate", "0/s"], "'0/s' is no rate"),
        (["list", "billing", "--reason", "~("], "no regular expression"),
    ],
)
def test_what_does_not_fit_is_a_usage_error(
    box: ThreadBox, capsys: pytest.CaptureFixture[str], words: list[str], why: str
) -> None:
    assert ExitCode.USAGE == main.run(["dlq", *words, "--name-server", box.address])
    assert why in capsys.readouterr().err


def test_a_group_without_dead_letters(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.CONFIGURATION == main.run(["dlq", "list", "biling", "--name-server", box.address])
    assert "no broker knows a group 'biling'" in capsys.readouterr().err


@pytest.fixture
def dying(box: ThreadBox) -> str:
    """A group with three letters of its own."""
    group = f"shipping-{next(_NUMBERS)}"
    box.send("orders", texts("orders", 1), queue=0)
    box.send(f"%DLQ%{group}", [letter(f"%DLQ%{group}", n) for n in range(3)], queue=0)
    return group


def test_a_plan_comes_first_and_changes_nothing(box: ThreadBox, dying: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(box, capsys, "replay", dying, "--dry-run")
    assert lines[0].startswith(f"{dying}: 3 dead letters go to the topics that they came from")
    assert ["orders", "3"] == lines[2].split()
    assert [] == said(box, capsys, "replay", dying, code=ExitCode.USAGE)
    assert [] == said(box, capsys, "drop", dying, "--json", code=ExitCode.USAGE)
    assert f"{dying}: 3 dead letters passed over" in said(box, capsys, "drop", dying, "--dry-run")[0]
    assert f"{dying}: 3 dead letters" == said(box, capsys, "list", dying)[0]


def test_a_plan_names_the_other_groups_that_get_the_copies(
    box: ThreadBox, dying: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever has an offset of the topic reads it."""
    with Reader(ReaderSettings((box.address,))) as reader:
        for group in (f"audit-{dying}", f"DLQ_REPLAY_{dying}", dying):
            reader.commit(group, MessageQueue("orders", "broker-a", 3), 0)
    summary = said(box, capsys, "replay", dying, "--dry-run")[0]
    others = summary.partition("groups that get them, too: ")[2].partition(" (--to-retry")[0].split(", ")
    assert f"audit-{dying}" in others
    assert not {dying, f"DLQ_REPLAY_{dying}"} & set(others)
    assert "groups that get" not in said(box, capsys, "replay", dying, "--to-retry", "--dry-run")[0]


def test_a_replay_says_what_it_did_in_its_last_line(
    box: ThreadBox, dying: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["dlq", "replay", dying, "--yes", "--key", "k1", "--rate", "1000/s", "--name-server", box.address]
    assert ExitCode.CLEAN == main.run(words)
    heard = capsys.readouterr()
    assert "replayed: sent=1 skipped=0 failed=0" == heard.out.splitlines()[-1]
    assert f" dlq replay group={dying} to=origin sent=1 skipped=0 failed=0" in heard.err

    told = f"{dying}: 2 dead letters; 1 more were replayed or dropped (--all)"
    assert told == said(box, capsys, "list", dying)[0]
    assert ["ID0", "ID2"] == [
        json.loads(line)["message_id"] for line in said(box, capsys, "list", dying, "--json")
    ]  # fmt: skip
    assert f"{dying}: 2 dead letters passed over" in said(box, capsys, "drop", dying, "--dry-run")[0]

    rows = [json.loads(line) for line in said(box, capsys, "replay", dying, "--yes", "--json")]
    assert [{"topic": "orders", "count": 2}, {"sent": 2, "skipped": 0, "failed": 0}] == rows
    assert f"{dying}: no dead letters; 3 more were replayed or dropped (--all)" == said(box, capsys, "list", dying)[0]
    assert f"{dying}: 3 dead letters" == said(box, capsys, "list", dying, "--all")[0]
    assert "replayed: sent=0 skipped=0 failed=0" == said(box, capsys, "replay", dying, "--yes")[-1]


def test_where_brokers_are_asked_for_copies_one_by_one_a_bar_is_shown_and_where_nobody_need_know_none_is_asked(
    box: ThreadBox, dying: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["dlq", "replay", dying, "--yes", "--key", "k1", "--name-server", box.address]
    assert ExitCode.CLEAN == main.run(words)
    capsys.readouterr()
    for command in ("list", "replay", "drop"):
        terminal = io.StringIO()
        with monkeypatch.context() as patch:
            patch.setattr(terminal, "isatty", lambda: True)
            patch.setattr("sys.stderr", terminal)
            dry = () if command == "list" else ("--dry-run",)
            assert ExitCode.CLEAN == main.run(["dlq", command, dying, *dry, "--name-server", box.address])
        assert "looking [##########                    ]  33%" in terminal.getvalue()

    capsys.readouterr()
    monkeypatch.setattr(Replayed, "has", lambda *_: pytest.fail("it asked"))
    assert f"{dying}: 3 dead letters" == said(box, capsys, "list", dying, "--all")[0]
    assert "order 1" == said(box, capsys, "show", dying, "ID1")[-1]


def test_one_that_fails_is_named(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["dlq", "replay", "billing", "--yes", "--since", "-1h", "--name-server", box.address]
    assert ExitCode.FAILED == main.run(words)
    heard = capsys.readouterr()
    assert "replayed: sent=0 skipped=0 failed=1" == heard.out.splitlines()[-1]
    assert "billing: 0 dead letters go to the topics that they came from; 1 do not say" in heard.out
    assert "not replayed: ID4: it does not say which topic it came from" in heard.err


def test_what_is_dropped_is_listed_no_more(box: ThreadBox, dying: str, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = [json.loads(line) for line in said(box, capsys, "drop", dying, "--limit", "2", "--yes", "--json")]
    assert {"broker": "broker-a", "queue": 0, "before": 0, "after": 2} == row
    assert f"{dying}: 1 dead letter; 2 more were replayed or dropped (--all)" == said(box, capsys, "list", dying)[0]
    said(box, capsys, "drop", dying, "--yes")
    assert f"{dying}: no dead letters; 3 more" in said(box, capsys, "list", dying)[0]


def test_some_are_dropped_from_among_others(box: ThreadBox, dying: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("drop", dying, "--key", "k1")
    verdict = f"{dying}: 1 dead letter passed over; brokers keep them as long as any message"
    assert [verdict, "COUNT", "    1"] == said(box, capsys, *words, "--dry-run")
    assert f"{dying}: 3 dead letters" == said(box, capsys, "list", dying)[0], "a dry run changes nothing"

    assert ExitCode.CLEAN == main.run(["dlq", *words, "--yes", "--json", "--name-server", box.address])
    heard = capsys.readouterr()
    assert [{"count": 1}] == [json.loads(line) for line in heard.out.splitlines()]
    assert f" dlq drop group={dying} passed_over=1 failed=0\n" in heard.err
    told = f"{dying}: 2 dead letters; 1 more were replayed or dropped (--all)"
    assert told == said(box, capsys, "list", dying)[0]
    assert [] == said(box, capsys, *words, "--yes", "--json"), "it is dropped once"

    rows = [json.loads(line) for line in said(box, capsys, "replay", dying, "--yes", "--json")]
    assert {"sent": 2, "skipped": 0, "failed": 0} == rows[-1]
    assert f"{dying}: no dead letters; 3 more were replayed or dropped (--all)" == said(box, capsys, "list", dying)[0]


def test_a_rate_is_kept_by_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(RealClock, "monotonic_ms", lambda _: 1000 + 1000 * sum(waits))
    monkeypatch.setattr(dlq, "Event", lambda: SimpleNamespace(wait=waits.append))
    pace = dlq.pacer(dlq.rate("4/s"))
    for _ in range(5):
        pace()
    assert [0.25] * 4 == waits
