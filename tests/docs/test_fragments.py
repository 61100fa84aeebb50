"""Pages that show a handler without what stands around it: of sending, order, broadcasting; and pages' programs."""

from __future__ import annotations

import ast
import asyncio
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework import App, Consumer, Message, Producer
from framework.hooks.host import PluginHost
from framework.settings.schema import AppSettings
from framework.testing import Harness
from tests.docs.blocks import DOCS, Block, blocks, everywhere
from tests.reading.threads import thread_box

BEFORE = """
import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from framework import *


@dataclass
class Order:
    id: int = 0
    number: int = 0
    customer: str = "ana"


def invoice_of(order: Order) -> dict:
    return {"number": order.number}


@dataclass
class Question:
    article: str = "none"


@dataclass
class Price:
    cents: int


class Database:
    async def find(self, number: str) -> str:
        return number

    async def insert_order(self, number: int) -> None:
        pass


@transaction_check("desk")
async def how_did_it_end(message: Message) -> str:
    return "unknown"


database, body, rows = Database(), b"an order", ["a", "b"]


@dataclass
class Invoice:
    customer: str


@dataclass
class Step:
    number: int


class Busy(Exception):
    pass


class Transaction:
    is_full = True
    added: list[Message] = []

    def add(self, message: Message) -> None:
        self.added.append(message)

    def commit(self) -> None:
        pass


transaction = Transaction()


def shelf_of(message: Message) -> str:
    return message.tags
"""
FRAGMENTS = [
    block
    for name in ("ordering.md", "broadcasting.md", "producing.md", "transactions.md")
    for block in blocks(DOCS / name, "python")
]


AWAITED = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


def names_of(block: Block, producer: Producer | None = None, address: str = "") -> tuple[dict[str, Any], Any]:
    """What a block defines, and what it awaits."""
    module: dict[str, Any] = {"__name__": "fragment", "producer": producer}
    exec(compile(BEFORE, "before", "exec", dont_inherit=True), module)
    text = block.text.replace("127.0.0.1:9876", address).replace("[...]", repr([address]))
    text = re.sub(r"datetime\(20[^)]*\)", "(datetime.now(UTC) + timedelta(hours=1))", text)  # a broker has its limits
    return module, eval(compile(text, str(block), "exec", flags=AWAITED, dont_inherit=True), module)


@pytest.mark.parametrize("block", FRAGMENTS, ids=str)
def test_what_a_page_shows_does_something(block: Block, tmp_path: Path) -> None:
    """A handler handles a message, and what is awaited is sent to a broker."""
    if "@consumer(" not in block.text:
        with thread_box() as box:
            if "await " in block.text or "async " in block.text:
                box.call(lambda: sent(block, box.address))
            else:
                names_of(block, address=box.address)
        return
    # What asks the handler from elsewhere stands below it, and is run by the next test.
    handlers = replace(block, text=block.text.partition("\n\nasync with ")[0])
    module, _ = names_of(handlers)
    consumers = [value for value in module.values() if isinstance(value, Consumer)]
    assert consumers
    for consumer in consumers:
        with Harness(consumer, settings={"broadcasting": {"folder": str(tmp_path)}}) as desk:
            desk.send(Message(consumer.spec.topic, '{"number": 7}', tags="a"))
            assert {"handled": 1} == Counter(event["event"] for event in desk.settle())


def test_the_page_s_check_of_a_transaction_finds_it() -> None:
    (block,) = [block for block in FRAGMENTS if "@transaction_check" in block.text]
    module, _ = names_of(replace(block, text=block.text.partition("\n\nasync with ")[0]))

    assert "commit" == asyncio.run(module["how_did_it_end"](Message("orders", b"an order", keys="7")))


PROGRAMS = [block for block in everywhere("python") if "__main__" in block.text]


@pytest.mark.parametrize("block", PROGRAMS, ids=str)
def test_a_program_of_a_page_sends_to_the_name_server_that_it_is_given(block: Block, tmp_path: Path) -> None:
    path = tmp_path / block.name
    path.write_text(block.text)
    with thread_box() as box:
        command = [sys.executable, str(path), box.address]
        done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert ["stored in", "stored in"] == [" ".join(line.split()[:2]) for line in done.stdout.splitlines()]


ASKED = [block for block in FRAGMENTS if "@replies" in block.text]


@pytest.mark.parametrize("block", ASKED, ids=str)
def test_what_asks_a_page_s_handler_from_elsewhere_gets_its_reply(
    block: Block, capsys: pytest.CaptureFixture[str]
) -> None:
    with thread_box() as box:
        box.send("prices", [Message("prices", '{"article": "tea"}')])  # so that the topic is there; it is no request
        box.call(lambda: asked(block, box.address))

    assert "b'{\"cents\":1999}'\n" == capsys.readouterr().out


async def asked(block: Block, address: str) -> None:
    """Its handlers run in an application, and what stands below them runs beside it."""
    handlers, below, asks = block.text.partition("\n\nasync with ")
    module, _ = names_of(replace(block, text=handlers))
    settings = AppSettings.model_validate({"cluster": {"name_servers": [address]}})
    consumers = [value for value in module.values() if isinstance(value, Consumer)]
    app = App(settings, consumers, plugins=PluginHost(discover=list))
    running = asyncio.ensure_future(app.run())
    try:
        await app.started()
        await names_of(replace(block, text="from framework import Producer" + below + asks), address=address)[1]
    finally:
        await app.stop()
        await running


async def sent(block: Block, address: str) -> None:
    async with Producer(name_servers=[address]) as producer:
        _, work = names_of(block, producer, address)
        await work
