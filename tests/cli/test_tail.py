"""`tail`: what it prints for people and for programs."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator

import pytest

from framework import Message
from framework.cli import main
from framework.cli.commands import tail
from framework.cli.exit_codes import ExitCode
from tests.reading.threads import ThreadBox, thread_box


@pytest.fixture(scope="module")
def box() -> Iterator[ThreadBox]:
    with thread_box() as box:
        for n in range(15):
            box.send("orders", [Message("orders", f"order {n}".encode(), tags="paid", keys=[f"k{n}", "all"])], queue=0)
        box.send("orders", [Message("orders", b"\xff\x00\n", properties={"who": "me"})], queue=1)
        yield box


def tailed(box: ThreadBox, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert ExitCode.CLEAN == main.run(["tail", "orders", *arguments, "--name-server", box.address])
    return capsys.readouterr().out.splitlines()


def test_the_last_ten_of_all_queues_together(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    lines = tailed(box, capsys)

    assert 10 == len(lines)
    assert ["broker-a:0:6", "paid", "k6,all", "order", "6"] == lines[0].split()[1:]
    assert "<3 bytes>" in lines[-1]


def test_the_json_has_the_fields_of_the_contract(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    text, binary = (json.loads(line) for line in tailed(box, capsys, "--from", "-2", "--json"))

    fields = ["topic", "broker", "queue", "offset", "message_id", "keys", "tags", "properties", "born", "stored"]
    assert [*fields, "body"] == list(text)
    assert [*fields, "body_base64"] == list(binary)
    assert ("orders", "broker-a", 0, 14, ["k14", "all"], "paid", "order 14") == tuple(
        text[name] for name in ("topic", "broker", "queue", "offset", "keys", "tags", "body")
    )
    assert ("/wAK", "me", None) == (binary["body_base64"], binary["properties"]["who"], binary["tags"])
    assert text["stored"].endswith("Z")


def test_key_tag_and_limit_choose(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    assert ["order 3"] == [line[-7:] for line in tailed(box, capsys, "--from", "earliest", "--key", "k3")]
    assert 15 == len(tailed(box, capsys, "--from", "earliest", "--tag", "paid"))
    assert 4 == len(tailed(box, capsys, "--from", "-1h", "--limit", "4"))
    assert ["order 3"] == [line[-7:] for line in tailed(box, capsys, "--from", "earliest", "--sql", "KEYS = 'k3 all'")]


def test_while_a_key_is_looked_for_a_terminal_has_a_bar_that_goes_before_a_message_is_shown(
    box: ThreadBox, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million messages take half a minute, in which nothing else would be seen."""
    monkeypatch.setattr(tail, "PROGRESS_EACH", 4)
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("sys.stdout", terminal)

    assert ExitCode.CLEAN == main.run(
        ["tail", "orders", "--from", "earliest", "--key", "k5", "--name-server", box.address]
    )
    drawn, message, more = re.split(r"(20\d\d-\S+  broker-a:0:5  .*\n)", terminal.getvalue())
    assert re.fullmatch(r"\rlooking \[#+ *\]  31%\r\x1b\[K", drawn)
    assert message.endswith("order 5\n")
    assert more.startswith("\rlooking [")
    assert more.endswith("\r\x1b[Ktail: 1 shown of 16 looked at\n")


def test_what_was_shown_was_looked_at(
    box: ThreadBox, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said "2 shown of 0 messages": what comes while it follows was counted by nobody."""
    from framework.admin import browse

    found = list(range(2))
    monkeypatch.setattr(browse, "messages", lambda *_: iter(found))
    monkeypatch.setattr("framework.cli.commands.tail.line_of", str)
    assert ExitCode.CLEAN == main.run(["tail", "orders", "--from", "earliest", "--name-server", box.address])
    assert "tail: 2 shown of 2 looked at\n" == capsys.readouterr().err


def test_a_place_that_is_none_is_a_usage_error(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.USAGE == main.run(["tail", "orders", "--from", "-soon", "--name-server", box.address])
    assert "'-soon' is no place in a topic; write earliest, latest, -20" in capsys.readouterr().err


def test_an_unknown_topic_is_an_error(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.CONFIGURATION == main.run(["tail", "order", "--name-server", box.address])
    assert (
        "error: no broker has a topic 'order' that can be read; did you mean 'orders'? [FA-C008]\n"
        in capsys.readouterr().err
    )
