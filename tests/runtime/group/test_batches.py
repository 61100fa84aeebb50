"""Batches in a whole application in virtual time: how they fill, and what becomes of each message."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from framework import Ack, BatchFailed, DeadLetter, Delivery, Drop, Message, Retry, RetryLater, consumer
from framework.hooks import Skip, hookimpl
from framework.hooks.host import PluginHost
from framework.testing import Harness

Event = dict[str, Any]


class Order(BaseModel):
    number: int


def kinds(events: list[Event]) -> Counter[str]:
    return Counter(event["event"] for event in events)


def send(desk: Harness, count: int) -> None:
    for number in range(count):
        desk.send("orders", f'{{"number": {number}}}', keys=str(number))


def test_a_batch_fills_while_its_oldest_message_waits_and_no_longer() -> None:
    sizes: list[int] = []
    waited: list[float] = []

    @consumer("orders", "billing", batch=8, linger="2s")
    async def bill(orders: list[Order], messages: Sequence[Message], *, seen: tuple[Delivery, ...]) -> None:
        assert isinstance(orders, list)
        assert isinstance(messages, tuple)
        assert [order.number for order in orders] == [int(message.keys[0]) for message in messages]
        assert list(messages) == [delivery.message for delivery in seen]
        sizes.append(len(orders))
        waited.append(desk.now)

    with Harness(bill) as desk:
        send(desk, 3)
        sent = desk.now
        assert Counter(handled=3) == kinds(desk.settle())
        assert [3] == sizes, "of several queues, and together"
        assert 1.9 <= waited[0] - sent + 0.1 < 3

        send(desk, 16)
        full = desk.now
        assert Counter(handled=16) == kinds(desk.settle())
        assert [8, 8] == sizes[1:]
        assert waited[-1] - full < 1, "full ones wait for nobody"


def test_without_a_linger_what_is_there_is_handled_at_once() -> None:
    sizes: list[int] = []

    @consumer("orders", "billing", batch=8)
    def bill(messages: list[Message]) -> None:
        sizes.append(len(messages))

    with Harness(bill) as desk:
        desk.send("orders", "x")
        assert Counter(handled=1) == kinds(desk.settle())
    assert [1] == sizes


@pytest.mark.parametrize("is_raised", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_ten_in_a_batch_and_the_fifth_fails(*, is_async: bool, is_raised: bool) -> None:
    """A success and a failure result with the same index retry exactly five to ten."""
    batches: list[list[int]] = []

    def act(orders: list[Order]) -> int | None:
        batches.append([order.number for order in orders])
        if len(batches) > 1:
            return None
        if is_raised:
            raise BatchFailed(at=4)
        return 3

    async def bill(orders: list[Order]) -> int | None:
        await asyncio.sleep(0.1)
        return act(orders)

    handler: Any = bill if is_async else act
    with Harness(consumer("orders", "billing", batch=10, linger="5s")(handler)) as desk:
        send(desk, 10)
        events = desk.settle()

    first, *others = batches
    assert 10 == len(first)
    assert sorted(first[4:]) == sorted(number for batch in others for number in batch)
    assert Counter(handled=10, retry=6) == kinds(events)


def test_each_message_has_its_own_outcome() -> None:
    @consumer("orders", "billing", batch=4, linger="5s")
    async def bill(orders: list[Order]) -> list[Any]:
        answers = [None, Ack(), DeadLetter("no"), Drop("me")]
        return [answers[order.number] for order in orders]

    with Harness(bill) as desk:
        send(desk, 4)
        assert Counter(handled=2, dead_lettered=1, dropped=1) == kinds(desk.settle())
        assert [b'{"number": 2}'] == [letter.body for letter in desk.dead_letters("billing")]


def test_an_exception_is_each_messages_and_shown_once() -> None:
    tries: list[int] = []

    @consumer("orders", "billing", batch=5, linger="5s", retry=Retry(on=TimeoutError, max=1, delays=["1s"]))
    async def bill(orders: list[Order]) -> None:
        tries.append(len(orders))
        raise TimeoutError("slow") if len(tries) == 1 else KeyError("gone")

    with Harness(bill) as desk:
        send(desk, 5)
        assert Counter(retry=5, dead_lettered=5) == kinds(desk.settle())
        failures = [line["error"] for line in desk.logs if line["event"] == "handler failed"]

    assert "TimeoutError: slow" == failures[0]
    assert len(tries) == len(failures), "one line a batch"


def test_what_cannot_be_read_and_what_a_hook_decides_is_settled_alone() -> None:
    numbers: list[int] = []
    heard: Counter[str] = Counter()

    class Sandbox:
        @hookimpl
        def before_consume(self, delivery: Delivery) -> Skip | None:
            return Skip("a tester's") if delivery.message.keys == ["1"] else None

        @hookimpl
        def after_consume(self, outcome: object) -> None:
            heard[type(outcome).__name__] += 1

    @consumer("orders", "billing", batch=8, linger="5s")
    def bill(orders: list[Order]) -> None:
        numbers.extend(order.number for order in orders)

    with Harness(bill, plugins=PluginHost(objects={"sandbox": Sandbox()})) as desk:
        send(desk, 3)
        desk.send("orders", "nonsense")
        assert Counter(handled=2, dropped=1, dead_lettered=1) == kinds(desk.settle())

    assert [0, 2] == sorted(numbers)
    assert Counter(Ack=2, Drop=1, DeadLetter=1) == heard


def test_no_more_batches_run_at_once_than_the_group_may() -> None:
    now = most = 0

    @consumer("orders", "billing", batch=2)
    async def bill(messages: list[Message]) -> RetryLater | None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(5)
        now -= 1
        return None

    with Harness(bill, settings={"consumers": {"billing": {"concurrency": 3}}}) as desk:
        send(desk, 20)
        assert Counter(handled=20) == kinds(desk.settle())

    assert 3 == most


def test_what_waits_for_company_is_given_back_when_the_application_stops() -> None:
    given: list[int] = []

    @consumer("orders", "billing", batch=100, linger="60s")
    async def bill(messages: list[Message]) -> None:
        given.append(len(messages))

    with Harness(bill) as desk:
        send(desk, 5)
        desk.sleep("5s")
    assert [] == given
