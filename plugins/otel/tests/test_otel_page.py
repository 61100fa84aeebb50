"""The page about traces, as a reader runs it: its files, an SDK that prints spans, and a process that consumes."""

from __future__ import annotations

import importlib
import json
import sqlite3
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from framework_outbox import Outbox

from framework import Message
from framework.broker.store.topics import Topic
from tests.cli.processes import command
from tests.docs.blocks import DOCS, write_files
from tests.reading.threads import thread_box

PAGE = DOCS / "howto" / "traces.md"


def spans_in(text: str) -> list[dict[str, Any]]:
    """The console exporter prints an object over several lines, between other lines."""
    found, decoder, at = [], json.JSONDecoder(), text.find('{\n    "name"')
    while at >= 0:
        span, end = decoder.raw_decode(text, at)
        found.append(span)
        at = text.find('{\n    "name"', end)
    return found


def test_the_page_s_files_make_a_trace_of_two_spans(tmp_path: Path) -> None:
    write_files(PAGE, tmp_path)
    with thread_box() as box:
        for node in box.broker.nodes:
            box.call(partial(node.rules.add, Topic(name="orders", read_queues=4, write_queues=4)))
        box.send("orders", [Message("orders", '{"number": "7"}')])
        options = ("--name-server", box.address, "--set", "consumers.billing.start=first", "--until-idle")
        with command("run", *options, folder=tmp_path) as running:
            assert 0 == running.end(None)
        spans = {each["name"]: each for each in spans_in("\n".join(running.lines))}

    process, send = spans["process orders"], spans["send invoices"]
    assert "order-desk" == process["resource"]["attributes"]["service.name"]
    assert "billing" == process["attributes"]["messaging.consumer.group.name"]
    assert process["context"]["span_id"] == send["parent_id"]
    assert {"messaging.message.id", "messaging.destination.partition.id"} <= send["attributes"].keys()


def test_what_the_page_writes_to_the_outbox_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(PAGE, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "shop", raising=False)  # another page's
    shop = importlib.import_module("shop")
    outbox = Outbox()
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE orders (number TEXT)")
    connection.execute("CREATE TABLE outbox (message_id, topic, ordering_key, body, properties)")

    with connection:
        shop.place(connection, outbox, "7")
    ((topic, body),) = connection.execute("SELECT topic, body FROM outbox").fetchall()
    connection.close()

    assert ("orders", b"7") == (topic, bytes(body))
