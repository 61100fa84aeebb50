"""Pages that show a handler without what stands around it: of sending, order, broadcasting, and of the Spark plugin."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework import Consumer, Message, Producer
from framework.testing import Harness
from tests.docs.blocks import DOCS, ROOT, Block, blocks
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
    number: int


@dataclass
class Price:
    cents: int


class Database:
    async def find(self, number: str) -> str:
        return number

    async def insert_order(self, number: int) -> None:
        pass


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
    # What asks the handler from elsewhere stands below it, and needs both to run.
    handlers = replace(block, text=block.text.partition("\n\nasync with ")[0])
    module, _ = names_of(handlers)
    consumers = [value for value in module.values() if isinstance(value, Consumer)]
    assert consumers
    for consumer in consumers:
        with Harness(consumer, settings={"broadcasting": {"folder": str(tmp_path)}}) as desk:
            desk.send(Message(consumer.spec.topic, '{"number": 7}', tags="a"))
            assert {"handled": 1} == Counter(event["event"] for event in desk.settle())


async def sent(block: Block, address: str) -> None:
    async with Producer(name_servers=[address]) as producer:
        _, work = names_of(block, producer, address)
        await work


def test_the_spark_plugin_s_first_line_names_a_source_and_options_that_there_are() -> None:
    (block,) = blocks(ROOT / "plugins" / "spark" / "README.md", "python")
    page = (DOCS / "spark.md").read_text()

    words = [node.value for node in ast.walk(ast.parse(block.text)) if isinstance(node, ast.Constant)]
    assert "rocketmq" in words
    assert {"nameServers", "topic"} <= set(words)
    assert all(f"`{option}`" in page for option in ("nameServers", "topic"))
