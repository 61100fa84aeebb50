"""Every command, with hostile texts in every field that a stranger chooses: nothing reaches the terminal as it is.

A client id, a topic or a broker's remark that could move the cursor, turn text around or begin a line would let
a producer write what an operator reads.
"""

from __future__ import annotations

import ast
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import framework.cli
from framework import Message
from framework.broker.answers import refuse
from framework.broker.intercept import Interceptor
from framework.broker.settings import BrokerSettings
from framework.broker.store.topics import StoredGroup, Topic
from framework.cli import main, output, table
from framework.harmless import escaped, plain
from framework.model.queue import MessageQueue
from framework.model.reserved import TRACE_TOPIC
from framework.reading import Reader, ReaderSettings
from framework.wire import frame, trace
from framework.wire.bodies.heartbeat import ConsumerData, Heartbeat, SubscriptionData
from framework.wire.bodies.running import ProcessQueueInfo, RunningInfo
from framework.wire.codes import RequestCode
from framework.wire.command import ANSWER_BIT, RemotingCommand
from framework.wire.fields import command_for
from framework.wire.requests.offset import UpdateOffsetRequest
from tests.cli.live import played
from tests.patience import PATIENCE_S
from tests.reading.threads import ThreadBox, thread_box
from tests.wire.frames import decode_frame

# Escape, ends of lines of every kind, C1 with its one-byte CSI, what turns text around, and what nobody sees.
SIGNS = "\x1b[2J\x1b]0;x\x07\n\r\x0b\x85\x9b31m\u2028\u2029\u202e\u2066\u200b\ufeff"
OF_PROPERTIES = SIGNS.replace("\n", "")  # whose text ends with some of them
GROUP, TOPIC = f"billing{SIGNS}", f"orders{SIGNS}"


def broker_of(box: ThreadBox) -> str:
    return next(iter(box.broker.brokers))


@pytest.fixture(scope="module")
def box() -> Iterator[ThreadBox]:
    settings = BrokerSettings(delays_ms=(50,) * 18, names=(f"broker{SIGNS}",))
    with thread_box(settings=settings) as box:
        (node,) = box.broker.nodes

        def made() -> None:
            for name in (TOPIC, "orders", "%RETRY%billing", "%DLQ%billing"):
                node.rules.add(Topic(name=name, read_queues=2, write_queues=2))
            node.rules.groups.put(GROUP, StoredGroup(name=GROUP))  # by the door that checks no name
            node.rules.put_group(StoredGroup(name="billing"))

        box.call(made)
        hostile: dict[str, Any] = {
            "body": f"body {SIGNS}".encode(),
            "keys": [f"key{OF_PROPERTIES}"],
            "tags": f"tag{OF_PROPERTIES}",
        }
        words = {
            "DEAD_LETTER_REASON": f"reason {OF_PROPERTIES}", "DEAD_LETTER_ERROR": f"error{OF_PROPERTIES}",
            "DEAD_LETTER_TIME": "1700000000000", "DEAD_LETTER_MEMBER": f"member{OF_PROPERTIES}",
            "DEAD_LETTER_ORIGIN": f"orders{OF_PROPERTIES}@b:2:1", f"other{OF_PROPERTIES}": OF_PROPERTIES,
        }  # fmt: skip
        dead = "%DLQ%billing"
        _store(box, "orders", Message("orders", message_id="ID1", properties={"p": OF_PROPERTIES}, **hostile))
        _store(box, dead, Message(dead, message_id="ID1", properties=words, **hostile))
        told = trace.before(1, f"r{SIGNS}", GROUP, "R1", "ID1", 0, None) + trace.after(
            "R1", "ID1", 41, None, 2, 42, GROUP, success=False
        )
        box.send(TRACE_TOPIC, [Message(TRACE_TOPIC, told.replace("\n", ""), keys=["ID1"])])
        with Reader(ReaderSettings((box.address,))) as reader:
            reader.commit("billing", reader.queues("orders")[0], 0)
        members = [
            Member(box.address, f"member{SIGNS}", _info()),
            Member(box.address, f"other{SIGNS}", RemotingCommand(1, remark=f"remark {SIGNS}")),
        ]
        members[0].ask(
            command_for(UpdateOffsetRequest(consumer_group=GROUP, topic="orders", queue_id=0, commit_offset=0))
        )
        yield box
        for member in members:
            member.close()


def _place(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


class Member:
    """A client by hand, since ours would refuse such names. It answers what it is asked, as strangers may."""

    def __init__(self, address: str, client_id: str, answer: RemotingCommand) -> None:
        self._answer = answer
        self._socket = socket.create_connection(_place(address))
        self._heard = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        wanted = SubscriptionData(topic="orders", expression=f"tag{SIGNS}")
        consumer = ConsumerData(group="billing", subscriptions=(wanted,))
        self.ask(
            RemotingCommand(RequestCode.HEART_BEAT, body=Heartbeat(client_id=client_id, consumers=(consumer,)).encode())
        )

    def ask(self, command: RemotingCommand) -> None:
        self._heard.clear()
        self._socket.sendall(frame.encode(command))
        assert self._heard.wait(PATIENCE_S)

    def _serve(self) -> None:
        while size := self._socket.recv(4, socket.MSG_WAITALL):
            command = decode_frame(self._socket.recv(int.from_bytes(size), socket.MSG_WAITALL))
            if command.is_answer:
                self._heard.set()
            elif not command.is_one_way:
                answer = copy(self._answer)
                answer.number, answer.flag = command.number, ANSWER_BIT
                self._socket.sendall(frame.encode(answer))

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE_S)
        self._socket.close()


def _info() -> RemotingCommand:
    wanted = SubscriptionData(topic=TOPIC, expression=f"tag{SIGNS}")
    properties = {
        "PROP_CLIENT_VERSION": f"V{SIGNS}", "PROP_CONSUMEORDERLY": SIGNS, "group.paused": f"paused {SIGNS}",
        "group.held": f"breaker of {SIGNS}",
    }  # fmt: skip
    queues = {MessageQueue("orders", f"broker{SIGNS}", 0): ProcessQueueInfo()}
    return RemotingCommand(0, body=RunningInfo(properties=properties, subscriptions=(wanted,), queues=queues).encode())


def _store(box: ThreadBox, topic: str, message: Message) -> None:
    box.send(topic, [message], queue=0)


READING = (
    ("topics",), ("topics", "--all"), ("groups",), ("groups", "billing"), ("groups", GROUP), ("lag",),
    ("lag", "billing"), ("lag", GROUP), ("lag", "--fail-above", "0"), ("tail", "orders"), ("tail", TOPIC),
    ("trace", "ID1", "--topic", "orders"), ("trace", f"ID{SIGNS}"), ("dlq", "list", "billing"),
    ("dlq", "list", "billing", "--by", "reason"), ("dlq", "list", GROUP), ("dlq", "show", "billing", "ID1"),
    ("dlq", "show", "billing", f"ID{SIGNS}"), ("doctor",), ("doctor", "billing"), ("doctor", GROUP),
    ("send", TOPIC, "x"), ("send", "orders", "x", "--tag", SIGNS), (f"nothing{SIGNS}",), ("lag", f"--option{SIGNS}"),
    ("explain", f"FA{SIGNS}"),
)  # fmt: skip
CHANGING = (
    ("reset", "billing", "orders", "--to", "earliest"),
    ("reset", GROUP, TOPIC, "--to", "earliest"),
    ("dlq", "replay", "billing"), ("dlq", "drop", "billing"),
)  # fmt: skip
NO_JSON = {"explain"}


@pytest.mark.parametrize("is_json", [False, True])
@pytest.mark.parametrize("words", READING)
def test_what_is_read_is_printed_harmless(
    box: ThreadBox, words: tuple[str, ...], is_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    check(said(box, capsys, *words, *(["--json"] if is_json else [])), is_json=is_json)


@pytest.mark.parametrize("options", [["--dry-run"], ["--dry-run", "--json"], [], ["--yes"], ["--yes", "--json"]])
@pytest.mark.parametrize("words", CHANGING)
def test_what_is_changed_is_printed_harmless(
    box: ThreadBox, words: tuple[str, ...], options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    check(said(box, capsys, *words, *options), is_json="--json" in options)


@pytest.mark.parametrize("command", READING + tuple((*words, "--yes") for words in CHANGING))
def test_remarks_of_brokers_are_printed_harmless(
    box: ThreadBox, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for spared in (FINDING, frozenset[int]()):
        remark = refuse(1, f"remark {SIGNS}")
        meddling = [
            Interceptor(code=code, answer=copy(remark), times=None) for code in RequestCode if code not in spared
        ]
        ends = [box.call(partial(box.broker.intercept, each)) for each in meddling]
        try:
            for more in ([], ["--json"]):
                check(said(box, capsys, *command, *more), is_json=bool(more))
        finally:
            for end in ends:
                box.call(end)


def test_the_hostile_texts_were_there(box: ThreadBox, capsys: pytest.CaptureFixture[str]) -> None:
    """Else the tests above would hold of anything."""
    seen = {
        "client id": ("groups", "billing"), "group": ("groups",), "topic": ("topics",), "broker": ("lag", "billing"),
        "key": ("tail", "orders"), "property": ("dlq", "show", "billing", "ID1"),
        "error": ("dlq", "list", "billing", "--all"),
        "unknown": ("lag", "billing"), "trace": ("trace", "ID1"),
    }  # fmt: skip
    for what, words in seen.items():
        out, err = said(box, capsys, *words)
        assert "?[2J" in (err if what == "unknown" else out), what
        if what != "unknown":
            out, _ = said(box, capsys, *words, "--json")
            assert "\\u001b[2J" in out, what


FINDING = frozenset({RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO})


def said(box: ThreadBox, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    has_cluster = words[0] not in NO_JSON and not words[0].startswith("nothing")
    with suppress(SystemExit):  # of argparse, at words that it does not know
        main.run([*words, *(["--name-server", box.address] if has_cluster else [])])
    found = capsys.readouterr()
    return found.out, found.err


def check(found: tuple[str, str], *, is_json: bool = False) -> None:
    out, err = found
    for text in found:
        assert all(sign.isprintable() or sign == "\n" for sign in text), repr(text)
    for line in out.split("\n") if is_json else ():
        assert not line or json.loads(line) is not None
    assert not any(line.startswith("[2J") for line in (out + err).split("\n")), "a line that a stranger began"


LIVE = {
    ("snapshot",): "snapshot", ("top", "--count", "1"): "snapshot", ("stacks",): "stacks", ("health",): "health",
    ("health", "--ready"): "health", ("pause", "billing", "--yes"): "pause", ("resume", "billing", "--yes"): "resume",
    ("resize", "billing", "5", "--yes"): "resize", ("pause", GROUP, "--yes"): "pause",
}  # fmt: skip


@pytest.mark.parametrize("is_json", [False, True])
@pytest.mark.parametrize("words", LIVE)
def test_pictures_of_applications_are_printed_harmless(
    words: tuple[str, ...], is_json: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = MessageQueue(TOPIC, f"b{SIGNS}", 0)
    queue = replace(played.queue(f"reason {SIGNS}"), queue=f"queue {SIGNS}", place=place)
    groups = [replace(played.group(name, queues=(queue,)), topics=(TOPIC,)) for name in ("billing", GROUP)]
    picture = played.worker(played.picture(*groups, name=f"shop{SIGNS}", member=f"m{SIGNS}"))
    handler = {
        "group": GROUP, "topic": TOPIC, "broker": SIGNS, "queue": 0, "offset": 1, "message_id": SIGNS, "keys": [SIGNS],
        "attempt": 1, "age_ms": 5, "in": SIGNS, "messages": 1, "is_given_up": False, "stack": [SIGNS],
    }  # fmt: skip
    answers: dict[str, Any] = {
        "about": {"name": f"shop{SIGNS}", "config": f"/{SIGNS}", "process": 100},
        "snapshot": {"workers": [picture, {"worker": 1, "process": 2, "error": f"error {SIGNS}"}]},
        "stacks": {"workers": [{"worker": 0, "process": 1, "handlers": [handler], "blocked": SIGNS}]},
        "health": {"worker": 0, "process": 1, "reasons": [f"reason {SIGNS}"], "phase": SIGNS},
        **{each: {"workers": [{"worker": 0, "error": f"error {SIGNS}"}]} for each in ("pause", "resume", "resize")},
    }
    with played.listening(tmp_path / "s", played.Played(**answers)), suppress(SystemExit):
        main.run([*words, "--socket", str(tmp_path / "s"), *(["--json"] if is_json else [])])
    found = capsys.readouterr()
    check((found.out, found.err))
    assert "[2J" in found.out + found.err


@pytest.mark.parametrize("kind", ["handled", "retry", "dead_lettered"])
def test_lines_of_dev_are_harmless(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    event = {
        "event": kind,
        **dict.fromkeys(("topic", "key", "group", "worker", "attempt", "reason"), SIGNS),
        "attempt": 2,
    }
    output.say(output.tail_line(event))
    check(("", capsys.readouterr().out))


# Those that write what they have made harmless, or what this very process has written: help, a child's lines, a screen.
WRITERS = {
    "output.py", "shown/explained.py", "main.py", "changes.py", "progress.py", "processes/children.py",
    "live/screen.py",
    "live/find.py", "commands/check.py", "commands/lag.py", "commands/broker.py",
}  # fmt: skip


def test_nothing_else_writes_to_a_terminal() -> None:
    """A new command says and tells, so that it need not remember."""
    folder = Path(str(framework.cli.__file__)).parent
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {
                "sys.stdout.write",
                "sys.stderr.write",
                "print",
            }:
                found.add(path.relative_to(folder).as_posix())

    assert found <= WRITERS


def test_colours_of_ours_stay_and_those_of_others_do_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(table, "has_colour", lambda: True)
    output.say(table.alarm(f"a{SIGNS}"), f"b{SIGNS}")
    output.say(f"within another: {table.bold('c')}")

    first, second, _ = capsys.readouterr().out.split("\n")
    assert f"\x1b[31ma{plain(SIGNS)}\x1b[0mb{plain(SIGNS)}" == first
    assert "within another: ?[1mc?[0m" == second


def test_a_harmless_text_is_the_same_json() -> None:
    value = {"a": SIGNS, SIGNS: "\U0001f600\ud800"}

    assert value == json.loads(output.as_json(value)) == json.loads(output.as_json(value, indent=1))
    assert "plain é 標" == plain("plain é 標") == escaped("plain é 標")
