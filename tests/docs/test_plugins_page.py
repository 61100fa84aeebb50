"""docs/plugins.md: its examples are plugins, and each of their hooks does what the page says: none fails unseen."""

from __future__ import annotations

import sqlite3
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from framework import Delivery, Message, consumer, publishes
from framework.hooks import BoxRequest, Skip
from framework.hooks.host import PluginHost
from framework.settings.schema import AppSettings
from framework.testing import Harness
from framework.testing.laws import check_allocation, check_codec, check_expiry
from tests.docs.blocks import DOCS, blocks

NAMES: dict[str, Any] = {}
for _block in blocks(DOCS / "plugins.md", "python"):
    exec(compile(_block.text, str(_block), "exec", dont_inherit=True), NAMES)


def host_with(name: str, plugin: Any) -> PluginHost:
    return PluginHost(discover=list, objects={name: plugin})


def test_its_first_plugin_is_made_with_its_settings_and_answers() -> None:
    settings = AppSettings.parsed({"plugins": {"settings": {"night": {"patience": "5m"}}}}, {})
    assert isinstance(settings, AppSettings)
    host = PluginHost(settings.plugins, settings, discover=list, objects={"night": NAMES["Night"]})
    assert ["patient"] == [name for name in host.expiry_policies if name == "patient"]

    (policy,) = NAMES["Night"](NAMES["NightSettings"]()).register_expiry_policies()  # the host's contains failures
    check_expiry(policy)
    for closed, answer in ((False, None), (True, Skip("closed"))):
        night = NAMES["Night"](NAMES["NightSettings"](closed=closed))
        assert answer == night.before_consume(Delivery("billing", Message("orders"), 0.0))


@pytest.fixture
def desk_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[Message]]:
    """What is published where a plugin is there, of two orders of which one fails at first."""
    monkeypatch.chdir(tmp_path)

    @consumer("orders", "billing")
    @publishes("receipts")
    async def bill(body: str, message: Message) -> str:
        if (connection := NAMES["ledger"].get(None)) is not None:
            connection.execute("CREATE TABLE IF NOT EXISTS paid (body)")
            connection.execute("INSERT INTO paid VALUES (?)", (f"{body} {message.attempt}",))
        if body == "late" and message.attempt == 1:
            raise OSError("not now")
        return body

    def played(name: str) -> list[Message]:
        with Harness(bill, plugins=host_with(name.lower(), NAMES[name]())) as desk:
            for body in ("17", "late"):
                desk.send("orders", body)
            desk.settle()
            assert not any(desk.snapshot().hook_failures.values())
            return desk.published()

    return played


def test_its_transaction_is_around_the_handler(
    desk_with: Callable[[str], list[Message]],
) -> None:
    desk_with("Transactions")

    connection = sqlite3.connect("ledger.db")
    assert [("17 1",), ("late 2",)] == sorted(connection.execute("SELECT body FROM paid"))
    connection.close()


def test_its_property_is_on_what_is_sent(desk_with: Callable[[str], list[Message]]) -> None:
    assert ["shop", "shop"] == [message.properties["origin"] for message in desk_with("Origin")]


def test_its_send_hook_counts_failures() -> None:
    origin = NAMES["Origin"]()
    for error in (None, OSError("away")):
        origin.after_send(Message("receipts", b"17"), None, error)

    assert 1 == origin.failed


def test_its_strategy_and_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    host = host_with("stripes", NAMES["Stripes"]())
    check_allocation(NAMES["Striped"](), within=1)
    arguments, command = ArgumentParser(), host.commands["shares"][1]
    command.add_options(arguments)

    assert ["striped"] == [name for name in host.strategies if name == "striped"]
    assert 0 == command.execute(arguments.parse_args(["16", "--members", "3"]), AppSettings())
    assert ["6", "5", "5"] == [line.split()[-1] for line in capsys.readouterr().out.splitlines() if " member-" in line]


def test_its_codec() -> None:
    codec = host_with("codecs", NAMES["Codecs"]()).codecs["packed"]

    check_codec(codec, tuple, [(1, 2), (-1,)])


def test_its_requests_of_the_built_in_broker() -> None:
    answered = NAMES["Box"]().register_broker_handlers()
    request = BoxRequest(code=310, fields={}, body=bytes(1_000_001), peer="127.0.0.1:4711", broker="broker-a")

    assert [77_001, 310] == list(host_with("box", NAMES["Box"]()).broker_handlers) == list(answered)
    assert {"broker": "broker-a", "you": "127.0.0.1:4711"} == answered[77_001](request).fields
    assert (2, "busy") == ((full := answered[310](request)).code, full.remark)
    assert answered[310](BoxRequest(310, {}, b"17", "127.0.0.1:4711", "broker-a")) is None
