"""What handlers are given and what their ends come to, in a whole application in virtual time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from framework import Ack, Delivery, Drop, Message, Retry, RetryLater, consumer, publishes
from framework.hooks import hookimpl
from framework.hooks.host import PluginHost
from framework.runtime.plans.collect import check
from framework.settings.schema import AppSettings
from framework.testing import Harness


class Order(BaseModel):
    number: str
    cents: int


@dataclass
class Step:
    article: str


def settings(group: str, **chosen: Any) -> dict[str, Any]:
    return {"consumers": {group: chosen}}


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["event"] for event in events]


@pytest.mark.parametrize("orderly", [False, True])
def test_an_async_handler_is_given_what_it_is_annotated(*, orderly: bool) -> None:
    given: list[tuple[object, ...]] = []

    @consumer("orders", "billing", orderly=orderly)
    async def bill(order: Order, message: Message, raw: bytes, *, delivery: Delivery) -> None:
        given.append((order, message.keys, raw, delivery.group, delivery.message is message))

    body = '{"number": "1", "cents": 5}'
    with Harness(bill) as desk:
        desk.send("orders", body, keys="one")
        assert ["handled"] == kinds(desk.settle())

    assert [(Order(number="1", cents=5), ["one"], body.encode(), "billing", True)] == given


@pytest.mark.parametrize("orderly", [False, True])
def test_a_plain_function_too(*, orderly: bool) -> None:
    given: list[object] = []

    @consumer("stock", "inventory", orderly=orderly)
    def move(step: Step) -> None:
        given.append(step)

    with Harness(move) as desk:
        desk.send("stock", '{"article": "tea"}')
        desk.settle()

    assert [Step("tea")] == given


@pytest.mark.parametrize("orderly", [False, True])
def test_a_body_that_cannot_be_read_is_a_dead_letter_with_its_reason(*, orderly: bool) -> None:
    @consumer("orders", "billing", orderly=orderly)
    async def bill(order: Order) -> None: ...

    with Harness(bill) as desk:
        desk.send("orders", '{"number": "1"}')
        desk.send("orders", '{"number": "1", "cents": 5}')
        assert ["dead_lettered", "handled"] == sorted(kinds(desk.settle()))
        assert [b'{"number": "1"}'] == [letter.body for letter in desk.dead_letters("billing")]
        (line,) = [line for line in desk.logs if line["event"] == "body undecodable"]

    assert "not a Order: cents: Field required" == line["reason"]


@pytest.mark.parametrize("orderly", [False, True])
def test_many_in_a_row_hold_the_group_and_the_rest_stays_on_the_broker(*, orderly: bool) -> None:
    @consumer("orders", "billing", orderly=orderly)
    async def bill(order: Order) -> None: ...

    with Harness(bill, settings=settings("billing", undecodable_max=3)) as desk:
        for _ in range(20):
            desk.send("orders", "nonsense")
        desk.sleep("10m")
        assert 3 == len(desk.dead_letters("billing"))
        reasons = {queue.reason for group in desk.snapshot().groups for queue in group.queues if queue.reason}

    assert any("3 bodies in a row could not be decoded" in reason for reason in reasons)


class Panic(BaseException):
    """As libraries in Rust raise it (pyo3's PanicException): none of Exception's."""


@pytest.mark.parametrize(
    ("is_async", "options"),
    [
        *((is_async, {}) for is_async in (False, True)),
        *((is_async, {"orderly": True}) for is_async in (False, True)),
        *((is_async, {"batch": 2}) for is_async in (False, True)),
        *((is_async, {"orderly": True, "batch": 2}) for is_async in (False, True)),
    ],
)
def test_a_panic_is_a_failure_as_any_other(*, is_async: bool, options: dict[str, Any]) -> None:
    """Its message is tried again; it is no worker's end, and holds no queue."""
    tries: list[int] = []

    def panic() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise Panic("index out of bounds")

    def handle(message: Message) -> None:
        panic()

    async def awaited(message: Message) -> None:
        panic()

    def batch(messages: list[Message]) -> None:
        panic()

    async def batch_awaited(messages: list[Message]) -> None:
        panic()

    one: Any = awaited if is_async else handle
    handler: Any = one if "batch" not in options else batch_awaited if is_async else batch
    with Harness(
        consumer("orders", "billing", **options)(handler), settings=settings("billing", concurrency=1)
    ) as desk:
        desk.send("orders", "x")
        desk.sleep("2m")
        assert 2 == len(tries)
        (error,) = [line["error"] for line in desk.logs if line["event"] == "handler failed"]
        (group,) = desk.snapshot().groups
        assert (1, 1) == (group.retried, group.handled)

    assert "Panic: index out of bounds" in error


def test_a_plain_handler_that_publishes_fails_with_whatever_it_raises() -> None:
    tries: list[int] = []

    @consumer("orders", "billing")
    @publishes("invoices")
    def bill(message: Message) -> bytes:
        tries.append(1)
        nobody: list[bytes] = []
        return b"paid" if len(tries) > 1 else next(iter(nobody))

    with Harness(bill, settings=settings("billing", concurrency=1)) as desk:
        desk.send("orders", "x")
        desk.sleep("2m")
        (group,) = desk.snapshot().groups
        assert (1, 1) == (group.retried, group.handled)


def test_a_dropped_body_is_told_as_dropped_to_plugins_too() -> None:
    heard: list[tuple[str, str]] = []

    class Ear:
        @hookimpl
        def after_consume(self, outcome: object, kind: str) -> None:
            heard.append((type(outcome).__name__, kind))

    @consumer("orders", "billing")
    async def bill(order: Order) -> None: ...

    with Harness(
        bill, settings=settings("billing", undecodable="drop"), plugins=PluginHost(objects={"ear": Ear()})
    ) as desk:
        desk.send("orders", "nonsense")
        assert ["dropped"] == kinds(desk.settle())

    assert [("Drop", "exception")] == heard


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_drop_settles_a_message_under_the_name_of_who_decided(*, orderly: bool, is_async: bool) -> None:
    async def skip(message: Message) -> Drop:
        return Drop("billing", "seen before")

    def skip_at_once(message: Message) -> Drop:
        return Drop("billing", "seen before")

    handler: Any = skip if is_async else skip_at_once
    with Harness(consumer("orders", "billing", orderly=orderly)(handler)) as desk:
        desk.send("orders", "x")
        assert ["dropped"] == kinds(desk.settle())
        assert [] == desk.dead_letters("billing")


@pytest.mark.parametrize("orderly", [False, True])
def test_with_explicit_ack_returning_nothing_is_no_success(*, orderly: bool) -> None:
    answers: list[Ack | None] = [None, None, Ack()]

    @consumer("orders", "billing", orderly=orderly)
    async def bill(message: Message) -> Ack | None:
        return answers.pop(0)

    with Harness(bill, settings=settings("billing", explicit_ack=True)) as desk:
        desk.send("orders", "x")
        assert ["retry", "retry", "handled"] == kinds(desk.settle())
        (group,) = desk.snapshot().groups

    assert (1, 2) == (group.handled, group.nothing)


def test_a_declared_retry_says_how_often_after_what_and_what_then() -> None:
    at: list[float] = []

    @consumer("orders", "billing", retry=Retry(on=TimeoutError, max=2, delays=["1s", "10s"], then=Drop))
    async def bill(message: Message) -> None:
        at.append(desk.now)
        raise TimeoutError("slow")

    with Harness(bill) as desk:
        desk.send("orders", "x")
        assert ["retry", "retry", "dropped"] == kinds(desk.settle())
        failed = [line["error"] for line in desk.logs if line["event"] == "handler failed"]

    first, second, third = at
    assert 1 <= second - first < 3
    assert 10 <= third - second < 13
    assert ["TimeoutError: slow"] * 3 == failed


def test_a_failure_that_no_retry_mends_is_given_up_at_once() -> None:
    @consumer("orders", "billing", retry=Retry(on=TimeoutError, max=5))
    def bill(message: Message) -> None:
        raise KeyError("no such order")

    with Harness(bill) as desk:
        desk.send("orders", "x")
        assert ["dead_lettered"] == kinds(desk.settle())


def test_more_retries_than_the_group_allows_are_refused_at_start() -> None:
    @consumer("orders", "billing", retry=Retry(max=20))
    async def bill(message: Message) -> RetryLater:
        return RetryLater()

    def mistakes(**chosen: int) -> list[str]:
        chosen_settings = AppSettings.model_validate(settings("billing", **chosen))
        return [str(mistake) for mistake in check([bill], chosen_settings)]

    (mistake,) = mistakes()
    assert "max=20 is above consumers.billing.max_retries, which is 16; raise it, or lower max" in mistake
    assert [] == mistakes(max_retries=20)
