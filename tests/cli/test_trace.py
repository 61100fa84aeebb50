"""`trace`: what it prints of a message, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from framework import Message
from framework.cli import main
from framework.cli.exit_codes import ExitCode
from framework.model.reserved import TRACE_TOPIC
from framework.reading import Reader, ReaderSettings
from framework.wire import trace
from tests.reading.threads import ThreadBox, thread_box


@pytest.fixture(scope="module")
def box() -> Iterator[ThreadBox]:
    """`billing` tried ID1 once and has it among its dead letters; `shipping` has not come so far."""
    with thread_box() as box:
        dead, origin = "%DLQ%billing", "orders@broker-a:0:1"
        words = {"DEAD_LETTER_REASON": "KeyError: 'card'", "DEAD_LETTER_ATTEMPTS": "1", "DEAD_LETTER_ORIGIN": origin}
        box.send("orders", [Message("orders", b"x", message_id=f"ID{number}") for number in range(3)], queue=0)
        box.send(dead, [Message(dead, b"x", message_id="ID1", properties=words)], queue=0)
        told = (
            trace.before(1_700_000_000_000, "r", "billing", "R1", "ID1", 0, None)
            + trace.after("R1", "ID1", 41, None, 2, 1_700_000_000_041, "billing", success=False)
        )  # fmt: skip
        box.send(TRACE_TOPIC, [Message(TRACE_TOPIC, told, keys=["ID1"])])
        with Reader(ReaderSettings((box.address,))) as reader:
            queue = reader.queues("orders")[0]
            reader.commit("billing", queue, 3)
            reader.commit("shipping", queue, 0)
        yield box


def test_how_it_stands_is_first_then_what_happened(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.CLEAN == main.run(["trace", "ID1", "--topic", "orders", "--name-server", box.address])

    verdict, billing, shipping, empty, title, *rows = capsys.readouterr().out.splitlines()
    assert "ID1: of orders, read by 2 groups" == verdict
    assert "  billing   dead letter: after 1 attempt: KeyError: 'card'" == billing
    assert "  shipping  not confirmed yet: 1 message before it" == shipping
    assert "" == empty
    assert ["AT", "WHAT", "WHERE", "WHO", "ELAPSED", "RESULT"] == title.split()
    assert "2023-11-14T22:13:20.000Z  attempt 1    127.0.0.1" in rows[0]
    assert ["billing", "41ms", "exception"] == rows[0].split()[-3:]
    assert ["stored", "dead"] == [row.split()[1] for row in rows[1:]]


def test_the_json_has_the_fields_of_the_contract(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.CLEAN == main.run(["trace", "ID1", "--json", "--name-server", box.address])

    captured = capsys.readouterr()
    rows = [json.loads(line) for line in captured.out.splitlines()]
    assert [["at", "what", "where", "who", "elapsed_ms", "result"]] * 5 == [list(row) for row in rows]
    assert ["attempt 1", "stored", "dead letter", "group", "group"] == [row["what"] for row in rows]
    assert ["2023-11-14T22:13:20.000Z", 41, "exception"] == [rows[0][name] for name in ("at", "elapsed_ms", "result")]
    assert {None} == {row["at"] for row in rows if row["what"] == "group"}
    assert "" == captured.err


def test_a_message_without_a_trace_says_so(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.CLEAN == main.run(["trace", "ID2", "--topic", "orders", "--name-server", box.address])

    assert "no client wrote a trace of it" in capsys.readouterr().err


def test_a_message_that_is_nowhere_ends_with_1(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.FAILED == main.run(["trace", "ID9", "--name-server", box.address])
    captured = capsys.readouterr()
    assert "" == captured.out
    assert "framework-app trace: no broker finds ID9 in 1 topic: it was never stored" in captured.err
    assert captured.err.endswith(" [FA-C013]\n")

    assert ExitCode.FAILED == main.run(["trace", "ID9", "--topic", "orders", "--name-server", box.address])
    assert "no broker finds ID9 in orders" in capsys.readouterr().err
    assert ExitCode.FAILED == main.run(["trace", "ID9", "--json", "--name-server", box.address])
    assert "FA-C013" == json.loads(capsys.readouterr().err)["id"]


def test_a_topic_that_is_mistyped_is_an_error(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["trace", "ID9", "--topic", "ordres", "--name-server", box.address]

    assert ExitCode.CONFIGURATION == main.run(words)
    assert "no broker has a topic 'ordres' that can be read; did you mean 'orders'?" in capsys.readouterr().err


def test_dead_letters_are_searched_where_they_are_named(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.CLEAN == main.run(["trace", "ID1", "--topic", "%DLQ%billing", "--name-server", box.address])
    assert "dead" in capsys.readouterr().out


def test_what_is_no_id_at_all_is_shown_in_part(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.FAILED == main.run(["trace", "A" * 3000, "--name-server", box.address])
    assert f"no broker finds {'A' * 77}... in 1 topic" in capsys.readouterr().err
