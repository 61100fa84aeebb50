"""`send`: a word, stdin, a file, or a file of lines."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from framework.cli import main
from framework.cli.exit_codes import ExitCode
from framework.cli.ndjson import fields_of
from framework.errors import Refused
from tests.patience import wait_until
from tests.reading.threads import ThreadBox, thread_box

_NUMBERS = count()


@pytest.fixture(scope="module")
def box() -> Iterator[ThreadBox]:
    with thread_box() as box:
        yield box


@pytest.fixture
def topic() -> str:
    return f"sent-{next(_NUMBERS)}"


def sent(box: ThreadBox, topic: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert ExitCode.CLEAN == main.run(["tail", topic, "--from", "earliest", "--json", "--name-server", box.address])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))


def test_a_word_with_key_tag_and_property(box: ThreadBox, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["send", topic, "hello", "--key", "a", "--key", "b", "--tag", "paid", "--property", "x=y=z"]
    assert ExitCode.CLEAN == main.run([*words, "--name-server", box.address])

    said = capsys.readouterr().out
    (message,) = sent(box, topic, capsys)
    assert f"sent to {topic} broker-a:{message['queue']}:0  {message['message_id']}\n" == said
    assert ("hello", ["a", "b"], "paid", "y=z") == (
        message["body"], message["keys"], message["tags"], message["properties"]["x"],
    )  # fmt: skip


def test_the_json_has_the_fields_of_the_contract(
    box: ThreadBox, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ExitCode.CLEAN == main.run(["send", topic, "hello", "--json", "--name-server", box.address])
    row = json.loads(capsys.readouterr().out)
    assert ["topic", "broker", "queue", "offset", "message_id"] == list(row)


def test_stdin_and_a_file_are_one_body(
    box: ThreadBox, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin(monkeypatch, b"two\nlines\n")
    assert ExitCode.CLEAN == main.run(["send", topic, "-", "--name-server", box.address])
    (tmp_path / "body").write_bytes(b"\xff\n")
    assert ExitCode.CLEAN == main.run(["send", topic, "--file", str(tmp_path / "body"), "--name-server", box.address])

    first, second = sent(box, topic, capsys)
    assert ("two\nlines", "/wo=") == (first["body"], second["body_base64"])


def test_lines_are_messages_and_what_tail_prints_is_sent_again(
    box: ThreadBox, topic: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [json.dumps({"body": f"m{n}", "keys": [f"k{n}"], "properties": {"n": str(n)}}) for n in range(150)]
    stdin(monkeypatch, "\n".join([*lines, ""]).encode())
    assert ExitCode.CLEAN == main.run(["send", topic, "-", "--ndjson", "--name-server", box.address])
    assert re.fullmatch(rf"sent: 150 messages to {topic}, [\d,]+ a second\n", capsys.readouterr().err)
    before = sent(box, topic, capsys)

    stdin(monkeypatch, "\n".join(json.dumps(each) for each in before).encode())
    words = ["send", f"{topic}-copy", "-", "--ndjson", "--json", "--name-server", box.address]
    assert ExitCode.CLEAN == main.run(words)
    assert 150 == len(capsys.readouterr().out.splitlines())

    def told(each: dict[str, Any]) -> tuple[str, list[str], str]:
        return each["body"], each["keys"], each["properties"]["n"]

    assert sorted(map(told, before)) == sorted(map(told, sent(box, f"{topic}-copy", capsys)))


@pytest.mark.parametrize(
    ("line", "mistake"),
    [
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("\xff", "not UTF-8; save it so"),
        ("[]", "write an object"),
        ('{"body": "x", "tag": "y"}', "unknown field 'tag'; use body, body_base64, keys, tags, properties"),
        ('{"tags": "y"}', "give one of body and body_base64"),
        ('{"body_base64": "?"}', "body_base64 is not base64"),
        ('{"body": "x", "keys": [1]}', "keys must be a list of texts"),
        ('{"body": "x", "properties": {"a": 1}}', "properties must be an object of texts"),
    ],
)
def test_a_line_that_is_wrong_is_named_by_its_number(
    box: ThreadBox,
    topic: str,
    line: str,
    mistake: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stdin(monkeypatch, f'{{"body": "well"}}\n{line}\n'.encode("latin-1"))

    assert ExitCode.CONFIGURATION == main.run(["send", topic, "-", "--ndjson", "--name-server", box.address])
    assert f"error: line 2: {mistake}" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["a", "--file", "b"], ["a", "--ndjson"], ["a", "--property", "b"]])
def test_what_makes_no_sense_is_an_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.USAGE == main.run(["send", "orders", *words])
    assert capsys.readouterr().err.startswith("error: ")


def test_a_file_that_cannot_be_sent_says_what_can_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "big").write_bytes(bytes(5 << 20))

    for words, mistake in (
        (["--file", str(tmp_path)], f"--file {tmp_path}: Is a directory; name a file that holds the body"),
        (["--ndjson", "--file", str(tmp_path)], "Is a directory; name a file that holds the lines"),
        (["--file", str(tmp_path / "big")], f"--file {tmp_path}/big: more than 4194304 bytes, which is the limit"),
    ):
        assert ExitCode.CONFIGURATION == main.run(["send", "orders", *words, "--name-server", "127.0.0.1:1"])
        assert mistake in capsys.readouterr().err


def test_a_body_may_be_any_json() -> None:
    assert b'{"id": 1}' == fields_of(b'{"body": {"id": 1}}')[0]


def test_messages_of_one_order_key_lie_in_one_queue_in_their_order(
    box: ThreadBox, topic: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin(monkeypatch, "\n".join(json.dumps({"body": f"m{n}"}) for n in range(40)).encode())
    words = ["send", topic, "-", "--ndjson", "--order-key", "8841", "--name-server", box.address]
    assert ExitCode.CLEAN == main.run(words)

    messages = sent(box, topic, capsys)
    assert 1 == len({message["queue"] for message in messages})
    ordered = sorted(messages, key=lambda message: message["offset"])
    assert [f"m{n}" for n in range(40)] == [message["body"] for message in ordered]


@pytest.mark.parametrize("due", [("--delay", "50ms"), ("--at", "2101-01-01T00:00:00Z")])
def test_a_delayed_message_says_by_what_it_is_recalled(
    box: ThreadBox, topic: str, capsys: pytest.CaptureFixture[str], due: tuple[str, str]
) -> None:
    words = ["send", topic, "later", *due, "--json", "--name-server", box.address]
    code = main.run(words)

    said = capsys.readouterr()
    if due[0] == "--delay":
        assert ExitCode.CLEAN == code
        row = json.loads(said.out)
        assert row["recall_handle"]
        assert row["offset"] is None, "the answer's is that of the place where it waits"
        assert ExitCode.CLEAN == main.run(["send", topic, "later", *due, "--name-server", box.address])
        place = rf"sent to {topic} broker-a:\d:-  [0-9A-F]{{32}}  delivered later\n"
        assert re.fullmatch(place, capsys.readouterr().out)
    else:
        assert ExitCode.CLEAN != code
        assert "exceeds the 3d of broker broker-a (timerMaxDelaySec)" in said.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--at", "soon"), "'soon' is no time; write 2026-12-24T18:00:00Z"),
        (("--delay", "soon"), "'soon' is not a duration"),
        (("--delay", "5s", "--at", "2026-12-24T18:00:00Z"), "not allowed with"),
        (("--order-key", ""), "the word after --order-key is empty"),
    ],
)
def test_an_order_or_time_that_cannot_be_is_said(
    box: ThreadBox, topic: str, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], complaint: str
) -> None:
    with suppress(SystemExit):
        assert ExitCode.CLEAN != main.run(["send", topic, "x", *words, "--name-server", box.address])
    assert complaint in capsys.readouterr().err


def test_on_a_terminal_a_file_has_a_bar_and_a_pipe_a_count(
    box: ThreadBox, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = tmp_path / "lines"
    lines.write_text('{"body": "x"}\n' * 2_000)

    def drawn(*words: str) -> str:
        terminal = io.StringIO()
        monkeypatch.setattr(terminal, "isatty", lambda: True)
        monkeypatch.setattr("sys.stderr", terminal)
        assert ExitCode.CLEAN == main.run(["send", topic, *words, "--ndjson", "--name-server", box.address])
        return terminal.getvalue()

    found = drawn("--file", str(lines))
    assert re.search(r"\rsending \[#+ *\] +\d+% 1,000 sent, [\d,]+ a second", found), found
    assert "] 100% 2,000 sent, " in found
    stdin(monkeypatch, lines.read_bytes())
    found = drawn("-")
    assert re.search(r"\rsending 2,000 sent, [\d,]+ a second *\n", found), found


@pytest.mark.parametrize("words", [["--ndjson"], ["--ndjson", "-"], ["-", "--ndjson"], ["--key", "k", "--ndjson", "-"]])
def test_lines_come_from_stdin_wherever_that_is_said(
    words: list[str], box: ThreadBox, topic: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin(monkeypatch, b'{"body": "well"}\n')

    assert ExitCode.CLEAN == main.run(["send", topic, *words, "--name-server", box.address])
    assert ["well"] == [each["body"] for each in sent(box, topic, capsys)]


def test_a_body_may_stand_behind_options(box: ThreadBox, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.CLEAN == main.run(["send", topic, "--name-server", box.address, "hello"])
    assert ["hello"] == [each["body"] for each in sent(box, topic, capsys)]


def test_behind_a_bad_line_it_is_said_how_many_are_stored(
    box: ThreadBox, topic: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was under way is waited for: no "up to N more"."""
    lines = "".join(f'{{"body": "{number}"}}\n' for number in range(5))
    stdin(monkeypatch, f"{lines}nonsense\n{lines}".encode())

    assert ExitCode.CONFIGURATION == main.run(["send", topic, "--ndjson", "--name-server", box.address])
    err = capsys.readouterr().err
    assert "stored: 5 messages; nothing from line 6 on was sent: `tail -n +6` has the rest\n" in err
    assert "error: line 6: no JSON" in err
    assert 5 == len(sent(box, topic, capsys))


def test_at_a_closed_port_it_is_said_that_nothing_is_stored_and_which_lines(
    topic: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin(monkeypatch, b'{"body": "a"}\n\n{"body": "b"}\n')

    assert ExitCode.UNREACHABLE == main.run(["send", topic, "--ndjson", "--name-server", "127.0.0.1:9"])
    assert "stored: 0 messages; lines 1, 3 not stored\n" in capsys.readouterr().err


def test_a_pipe_that_stays_open_is_sent_from_at_once_and_ctrl_c_says_what_is_stored(
    box: ThreadBox, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`tail --follow | send` is silent for as long as nothing comes: what came before it is sent all the same."""
    words = ["send", topic, "--ndjson", "--name-server", box.address]
    with (tmp_path / "err").open("wb") as errors:
        sending = subprocess.Popen(
            [sys.executable, "-m", "framework", *words], stdin=subprocess.PIPE, stderr=errors, cwd=tmp_path
        )
    try:
        assert sending.stdin is not None
        sending.stdin.write(b'{"body": "a"}\n\n{"body": "b"}\n')
        sending.stdin.flush()
        wait_until(lambda: main.run(["tail", topic, "--name-server", box.address]) == ExitCode.CLEAN, "the topic")
        wait_until(lambda: len(sent(box, topic, capsys)) == 2, "both messages")
        sending.send_signal(signal.SIGINT)
        assert ExitCode.LEFT_AT_ONCE == sending.wait()
    finally:
        sending.kill()
        sending.communicate()
    said = (tmp_path / "err").read_text()
    assert "stored: 2 messages; nothing from line 4 on was sent: `tail -n +4` has the rest\n" == said


def test_one_message_that_cannot_be_sent_has_one_cause(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It said before that it was tried again until the cluster answers."""
    assert ExitCode.UNREACHABLE == main.run(["send", topic, "x", "--name-server", "127.0.0.1:9"])
    cause, hint = capsys.readouterr().err.splitlines()
    told = "no name server answers: 127.0.0.1:9: connection refused; check cluster.name_servers (--name-server)"
    assert f"error: send to {topic}: {told} [FA-C002]" == cause
    assert hint.startswith("hint: ")


@pytest.mark.parametrize(
    "end", ["\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.", "", " See x"]
)
def test_a_topic_that_brokers_do_not_make_has_its_way_out(end: str) -> None:
    """In one line: a stock broker has a second one with a link."""
    remark = f"topic[shop-orders] not exist, apply first please!{end}"
    error = Refused(17, remark, request="SEND_MESSAGE_V2 (310)", peer="broker-a")

    assert str(error) == (
        "SEND_MESSAGE_V2 (310) refused by broker-a: code 17, topic[shop-orders] not exist; "
        "create it: mqadmin updateTopic -n NAME_SERVER -c CLUSTER -t shop-orders"
    )
    assert remark == error.remark


def test_where_a_file_broke_off_its_name_is_in_the_way_on(
    box: ThreadBox, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "my lines"
    file.write_text('{"body": "a"}\n{"body": "b"}\nnonsense\n{"body": "c"}\n')

    words = ["send", topic, "--ndjson", "--name-server", box.address, "--file", str(file)]
    assert ExitCode.CONFIGURATION == main.run(words)
    err = capsys.readouterr().err
    assert f"stored: 2 messages; nothing from line 3 on was sent: `tail -n +3 '{file}'` has the rest\n" in err
