"""`dlq`: what it prints of dead letters, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from framework import Message
from framework.cli import main
from framework.cli.exit_codes import ExitCode
from tests.reading.threads import ThreadBox, thread_box


def letter(topic: str, n: int, error: str = "KeyError", reason: str = "'card'") -> Message:
    words = {
        "DEAD_LETTER_REASON": reason, "DEAD_LETTER_ERROR": error, "DEAD_LETTER_TIME": str(1_700_000_000_000 + n),
        "DEAD_LETTER_ATTEMPTS": "3", "DEAD_LETTER_ORIGIN": f"orders@broker-a:2:{n}",
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
    assert ["COUNT", "ERROR", "FIRST", "LAST", "ATTEMPTS", "REASON"] == title.split()
    first, last = "2023-11-14T22:13:20.000Z", "2023-11-14T22:13:20.002Z"
    assert ["3", "KeyError", first, last, "3", "'card'"] == rows[0].split()
    assert rows[1].endswith("no answer in 30 s")
    assert ["1", "-"] == rows[2].split()[:2]
    assert "-" == rows[2].split()[-1], "an unknown reason is no empty one"


def test_the_json_has_the_fields_of_the_contract(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [json.loads(line) for line in said(box, capsys, "list", "billing", "--json")]

    fields = ["message_id", "origin_topic", "origin_queue", "origin_offset", "attempts", "reason", "error", "dead_at"]
    assert [*fields, "keys", "body"] == list(rows[0])
    values = ["ID0", "orders", 2, 0, 3, "'card'", "KeyError", "2023-11-14T22:13:20.000Z", ["k0"], "order 0"]
    assert values == list(rows[0].values())
    assert ("ID4", None, None, None, "/w==") == tuple(
        rows[4][name] for name in ("message_id", "origin_topic", "reason", "error", "body_base64")
    )


def test_filters_choose(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    assert "billing: 3 of 5 dead letters" == said(box, capsys, "list", "billing", "--reason", "KeyError")[0]
    assert "billing: 1 of 5 dead letters" == said(box, capsys, "list", "billing", "--reason", r"~\d+ s$")[0]
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
    assert [] == said(box, capsys, "show", "billing", "ID9", code=ExitCode.FAILED)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["show", "billing"], "show: say which one"),
        (["show", "billing", "ID1", "--limit", "3"], "show takes no --limit"),
        (["list", "billing", "ID1"], "list takes no message id"),
        (["list", "billing", "--since", "earliest"], "'earliest' is no time"),
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
