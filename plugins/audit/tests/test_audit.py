"""The audit plugin, loaded by the host as an installed one is."""

from __future__ import annotations

import json
from argparse import Namespace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pytest
from framework_audit.plugin import LINES_MAX, Audit, AuditSettings
from framework_audit.summary import Summary

from framework.client.outgoing import SendResult, prepare
from framework.client.producing.told import send_hooks
from framework.errors import BrokerUnreachable
from framework.hooks.host import GROUP, PluginHost
from framework.mistakes import FileUnreadable, WrongValue
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.outcome import Ack, RetryLater
from framework.model.queue import MessageQueue
from framework.settings.schema import AppSettings, PluginsSettings


def host_with(**settings: object) -> PluginHost:
    entry = EntryPoint("audit", "framework_audit.plugin:Audit", GROUP)
    chosen = AppSettings(plugins=PluginsSettings(settings={"audit": settings}))
    return PluginHost(chosen.plugins, chosen, discover=lambda: [entry])


def delivery(offset: int, *, started: float = 0.0, attempt: int = 1) -> Delivery:
    queue = MessageQueue("orders", "broker-a", 3)
    message = Message("orders", b"{}", queue=queue, queue_offset=offset, attempt=attempt, message_id=f"ID{offset}")
    return Delivery("billing", message, started)


def lines_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_plugin_is_installed_under_its_name() -> None:
    """It comes in by the same door as a stranger's."""
    found = [entry.value for entry in entry_points(group=GROUP) if entry.name == "audit"]

    assert ["framework_audit.plugin:Audit"] == found


def test_each_delivery_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    host = host_with(file=str(path))
    (after,) = host.calls.after

    after(delivery(7), Ack(), 1.25, "success")
    after(delivery(8, attempt=2), RetryLater("10s"), 3.0, "failed")
    host.calls.app_stopping(None)

    assert [
        {
            "group": "billing", "topic": "orders", "queue": "orders@broker-a:3", "offset": 7, "message_id": "ID7",
            "attempt": 1, "outcome": "Ack", "elapsed_ms": 1.25,
        },
        {
            "group": "billing", "topic": "orders", "queue": "orders@broker-a:3", "offset": 8, "message_id": "ID8",
            "attempt": 2, "outcome": "RetryLater", "elapsed_ms": 3.0,
        },
    ] == lines_in(path)  # fmt: skip


def test_without_a_file_no_message_is_asked_anything() -> None:
    host = host_with()

    assert () == host.calls.after
    assert "audit" in [each.name for each in host.plugins]


def test_each_message_that_was_sent_is_one_line_if_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "audit.jsonl"
    host = host_with(file=str(path), sends=True)
    hooks = send_hooks(host.calls)
    assert hooks is not None
    outgoing = prepare(Message("orders", b"{}"), "ID7", 0)
    result = SendResult("ID7", "", MessageQueue("orders", "broker-a", 3), 7)

    hooks.ended(outgoing, [result], None, 0.00125)
    hooks.ended(outgoing, (), BrokerUnreachable("gone"), 0.003)
    host.calls.app_stopping(None)

    assert [
        {
            "topic": "orders", "queue": "orders@broker-a:3", "offset": 7, "message_id": "ID7", "outcome": "Sent",
            "elapsed_ms": 1.25,
        },
        {
            "topic": "orders", "queue": None, "offset": None, "message_id": "", "outcome": "BrokerUnreachable",
            "elapsed_ms": 3.0,
        },
    ] == lines_in(path)  # fmt: skip
    capsys.readouterr()  # what the host logged
    Summary(str(path)).execute(Namespace(group=None), None)
    assert "- orders BrokerUnreachable 1\n- orders Sent 1\n" == capsys.readouterr().out


def test_messages_get_their_sender_s_name_if_it_is_set() -> None:
    hooks = send_hooks(host_with(sender="shop").calls)
    assert hooks is not None

    assert {"SENDER": "shop"} == hooks.begun(Message("orders", b"{}")).properties


def test_unless_it_is_asked_to_it_hears_of_no_send(tmp_path: Path) -> None:
    assert send_hooks(host_with(file=str(tmp_path / "audit.jsonl")).calls) is None
    assert send_hooks(host_with(sends=True).calls) is None, "there is no file"


def test_sends_do_not_keep_a_delivery_s_line_from_ageing(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    plugin = Audit(AuditSettings(file=str(path), sends=True))

    plugin.after_send(Message("orders", b"{}"), None, None, 0.0)
    plugin.after_consume(delivery(0, started=100.0), Ack(), 0.0)
    assert not path.exists()
    plugin.after_consume(delivery(1, started=101.0), Ack(), 0.0)

    assert 3 == len(lines_in(path))


def test_lines_are_written_together(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    plugin = Audit(AuditSettings(file=str(path), flush_lines=3))

    for offset in range(2):
        plugin.after_consume(delivery(offset), Ack(), 0.0)
    assert not path.exists()

    plugin.after_consume(delivery(2), Ack(), 0.0)
    assert [0, 1, 2] == [line["offset"] for line in lines_in(path)]


def test_an_old_line_is_written_by_the_next_delivery(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    plugin = Audit(AuditSettings(file=str(path), flush_after=1_000))

    plugin.after_consume(delivery(0, started=100.0), Ack(), 0.0)
    plugin.after_consume(delivery(1, started=100.9), Ack(), 200.0)

    assert 2 == len(lines_in(path))


def test_deliveries_that_end_while_draining_are_written(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    plugin = Audit(AuditSettings(file=str(path)))
    plugin.app_stopping()

    plugin.after_consume(delivery(5), Ack(), 0.0)

    assert [5] == [line["offset"] for line in lines_in(path)]


def test_a_file_that_cannot_be_written_hurts_no_message(tmp_path: Path) -> None:
    """The host counts the failure; the lines are kept, up to a limit, and written when the cause is gone."""
    folder = tmp_path / "missing"
    host = host_with(file=str(folder / "audit.jsonl"), flush_lines="1")
    (after,) = host.calls.after

    after(delivery(0), Ack(), 0.0, "success")
    assert {"audit": 1} == host.calls.failures

    folder.mkdir()
    after(delivery(1), Ack(), 0.0, "success")
    assert [0, 1] == [line["offset"] for line in lines_in(folder / "audit.jsonl")]


def test_lines_that_are_too_many_to_keep_are_given_up(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    plugin = Audit(AuditSettings(file=str(path), flush_lines=LINES_MAX, flush_after=60_000))
    plugin._lines = ["{}"] * (LINES_MAX + 5)

    plugin.app_stopping()

    assert 5 == plugin.given_up
    assert LINES_MAX == len(lines_in(path))


def test_its_command_counts_by_group_topic_and_outcome(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "audit.jsonl"
    plugin = Audit(AuditSettings(file=str(path)))
    for offset in range(3):
        plugin.after_consume(delivery(offset), RetryLater("10s") if offset == 1 else Ack(), 0.0)
    plugin.app_stopping()
    with path.open("a") as lines:
        lines.write('{"group": "bil')  # cut by a crash

    command = plugin.register_commands()["audit"]
    assert 0 == command.execute(Namespace(group=None), None)
    assert "billing orders Ack 2\nbilling orders RetryLater 1\n" == capsys.readouterr().out
    assert 0 == command.execute(Namespace(group="shipping"), None)
    assert "" == capsys.readouterr().out


def test_its_command_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(WrongValue, match=r"^plugins\.settings\.audit: no file; write file: audit\.jsonl$"):
        Audit(AuditSettings()).register_commands()["audit"].execute(Namespace(group=None), None)
    gone = AuditSettings(file=str(tmp_path / "gone.jsonl"))
    with pytest.raises(
        FileUnreadable, match=r"^plugins\.settings\.audit\.file '.*gone\.jsonl': No such file or directory$"
    ):
        Audit(gone).register_commands()["audit"].execute(Namespace(group=None), None)
