"""The banner: ten lines at most, a command that works as it stands, and a log that does not repeat it."""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from io import StringIO
from typing import Annotated, Any

import pytest
import structlog
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from framework import App, Message, consumer
from framework.cli.greeting import banner, quiet
from framework.cli.greeting.sample import sample
from framework.declare import Consumer
from framework.hooks.host import PluginHost
from framework.runtime.logs import setup
from framework.settings.schema import AppSettings
from tests.house.log_events import events


class Colour(Enum):
    RED = "red"


class Line(TypedDict):
    sku: str
    count: int


class Order(BaseModel):
    number: Annotated[str, Field(min_length=3)]
    cents: Annotated[int, Field(ge=100)]
    share: Annotated[float, Field(gt=1)]
    paid: bool
    at: dt.datetime
    day: dt.date
    id: uuid.UUID
    colour: Colour
    lines: Annotated[list[Line], Field(min_length=1)]
    note: str = "none"


@dataclass
class Flag:
    is_on: bool | None


def takes(kind: Any, **options: Any) -> Consumer[..., Any]:
    def handle(body: object) -> None: ...

    handle.__annotations__["body"] = kind
    return consumer("orders", "billing", **options)(handle)


@pytest.mark.parametrize("kind", [Order, Flag, Line, list[Line], dict, list, str, bytes, Message, dict[str, int]])
def test_a_sample_is_a_body_that_the_handler_takes(kind: Any) -> None:
    spec = takes(kind).spec
    text = sample(spec)

    assert text is not None
    for argument in spec.arguments:
        if argument.decode is not None:
            argument.decode(text.encode())


def test_a_sample_of_a_dict_has_the_keys_that_the_handler_reads() -> None:
    """The command that `dev` shows a new user is not to end in a KeyError."""

    @consumer("orders", "billing")
    def bill(order: dict[str, Any], message: Message) -> None:
        order["seen"] = message.keys[0]
        if order["paid"]:
            print(order["number"], order.get("note"), order["lines"][0])

    assert '{"lines": 1, "number": 1, "paid": 1}' == sample(bill.spec)
    assert '{"id": 1}' == sample(takes(dict).spec)


def test_a_sample_of_a_batch_is_one_of_its_messages() -> None:
    assert '{"sku": "a", "count": 1}' == sample(takes(list[Line], batch=3).spec)


def test_where_nothing_is_found_the_command_has_a_word_to_replace() -> None:
    class Odd(BaseModel):
        code: Annotated[str, Field(pattern="^[0-9]{7}$")]

    odd = takes(Odd)
    assert sample(odd.spec) is None
    lines = banner.lines(facts_of(odd), "HERE", 1, ["--name-server", "h:1"])
    assert "send: framework-app send orders BODY --name-server h:1" == lines[1]


def facts_of(*consumers: Consumer[..., Any], settings: dict[str, Any] | None = None) -> dict[str, Any]:
    app = App(AppSettings.model_validate(settings or {}), consumers, plugins=PluginHost(discover=list))
    return banner.facts(app, "configured", first_message=True)


def test_each_consumer_is_one_line_and_many_are_counted() -> None:
    @consumer("orders", "audit", batch=10)
    def audit(orders: list[str]) -> None: ...

    @consumer("prices", "cache", broadcasting=True)
    def cache(price: str) -> None: ...

    @consumer("orders", "ledger", orderly="key", sql="cents > 100")
    def enter(order: str) -> None: ...

    facts = facts_of(audit, cache, enter, settings={"consumers": {"audit": {"concurrency": 3, "max_retries": 0}}})
    assert [
        "cluster: HERE; 2 processes",
        "send: framework-app send orders hello --name-server h:1",
        "topic   filter       group   mode                       concurrency    retries  handler",
        "orders  *            audit   concurrent, batches of 10            3          0  audit",
        "prices  *            cache   broadcasting                        20          0  cache",
        "orders  cents > 100  ledger  orderly by key                      20  unlimited  enter",
    ] == banner.lines(facts, "HERE", 2, ["--name-server", "h:1"])

    many = {**facts, "consumers": facts["consumers"] * 5}
    lines = banner.lines(many, "HERE", 1, [])
    assert banner.LINES_MAX - 1 == len(lines)
    assert "and 10 more consumers" == lines[-1]


@pytest.fixture
def lines() -> Iterator[StringIO]:
    stream = StringIO()
    setup.configure(AppSettings(), stream=stream, first=quiet.processors(worker=3, in_dev=True))
    yield stream
    setup.unroute()
    structlog.reset_defaults()


def test_what_the_banner_says_is_left_out_and_nothing_else(lines: StringIO) -> None:
    log = structlog.get_logger()
    log.info("connected", peer="a:1")
    log.info("connected", peer="a:1", after_ms=900)
    log.info("setting changed", setting="x")
    log.warning("app started")
    logging.getLogger("mine").info("connected")

    said = lines.getvalue().splitlines()
    assert ["connected", "setting changed", "app started", "connected"] == [
        line.split("]", 1)[1].split("  ")[0].strip() for line in said
    ]
    assert all("worker=3" in line for line in said)


@pytest.mark.xdist_group("sources")
def test_the_events_that_are_left_out_are_the_framework_s_and_only_info() -> None:
    known = {name: event.levels for room in events().values() for name, event in room.items()}

    left_out = {name.removesuffix(": more") for name in quiet.SHOWN_OTHERWISE}
    assert {} == {name: known.get(name) for name in left_out if "info" not in known.get(name, ())}
