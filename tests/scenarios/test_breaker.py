"""Handlers that fail all do not send a topic to the dead letters: one message is tried at a time until one succeeds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from framework import DeadLetter, Message, RetryLater, consumer
from framework.runtime.app import App
from framework.settings.consumers import ConsumerSettings
from framework.testing import Harness

CONCURRENCY = 8
LIMIT = 20
MESSAGES = 120
PAUSE_MAX_S = 60

WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "tasks": ({}, {}),
    "pop": ({}, {"delivery": "pop"}),
    "batches": ({"batch": 4}, {}),
    "orderly": ({"orderly": True}, {}),
    "orderly-key": ({"orderly": "key"}, {}),
    "orderly-batches": ({"orderly": True, "batch": 4}, {}),
    "broadcasting": ({"broadcasting": True}, {}),
}
IN_HAND = {"batches": 4 * CONCURRENCY, "orderly-batches": 4 * CONCURRENCY}


class Desk:
    """A handler that can be broken and mended."""

    def __init__(self, *, is_async: bool = True, **options: Any) -> None:
        self.is_broken, self.hangs = True, False
        self.handled: list[str] = []
        self.tries = 0
        self.starts: list[float] = []
        options.setdefault("orderly", False)
        desk = self

        def act(messages: list[Message]) -> None:
            self.tries += 1
            self.starts.append(asyncio.get_running_loop().time() if is_async else 0.0)
            if desk.is_broken:
                raise ConnectionRefusedError("the database is away")
            desk.handled += [bytes(each.body).decode() for each in messages]

        async def awaited(message: Message) -> None:
            if desk.hangs:
                await asyncio.sleep(3600)
            act([message])

        def plain(message: Message) -> None:
            act([message])

        async def batch(messages: list[Message]) -> None:
            act(messages)

        chosen: Any = batch if "batch" in options else awaited if is_async else plain
        self.consumer = consumer("orders", "billing", **options)(chosen)


def settings(**chosen: Any) -> dict[str, Any]:
    values = {"breaker": LIMIT, "max_retries": 0, "concurrency": CONCURRENCY, "start": "first", **chosen}
    return {"consumers": {"billing": values}}


def events(desk: Harness, name: str) -> list[dict[str, Any]]:
    return [line for line in desk.logs if line["event"] == name]


def given_up(desk: Harness) -> int:
    return len([event for event in desk.events if event["event"] in {"dead_lettered", "dropped"}])


@pytest.mark.parametrize("is_async", [True, False], ids=["awaited", "threads"])
@pytest.mark.parametrize("way", WAYS)
def test_few_are_given_up_and_all_go_on_once_the_handler_is_mended(way: str, *, is_async: bool) -> None:
    options, chosen = WAYS[way]
    orders = Desk(is_async=is_async, **options)

    with Harness(orders.consumer, settings=settings(**chosen)) as desk:
        for number in range(MESSAGES):
            desk.send("orders", str(number), properties={"__SHARDINGKEY": str(number % 16)})
        desk.sleep("20s")
        lost = given_up(desk)
        (line,) = events(desk, "breaker opened")
        held = desk.snapshot()
        orders.is_broken = False
        desk.sleep(f"{2 * PAUSE_MAX_S}s")
        all_given_up = given_up(desk)
        healed = desk.snapshot()
        assert len(events(desk, "breaker closed")) == 1

    trials = 5  # after 1, 3, 7 and 15 s, and one that was under way
    assert LIMIT <= lost <= LIMIT + IN_HAND.get(way, CONCURRENCY) + trials
    assert MESSAGES == len(orders.handled) + all_given_up
    assert all_given_up <= lost + 1
    assert ("error", "orders", "billing") == (line["level"], line["topic"], line["group"])
    assert f"ConnectionRefusedError: the database is away ({line['failures']} of {line['failures']})" == line["reason"]
    assert not held.is_ready
    assert any("orders" in reason and "ConnectionRefusedError" in reason for reason in held.not_ready)
    assert not held.not_live
    assert {("held", "breaker")} == {(each.state, each.reason) for each in held.groups[0].queues if each.lag}
    assert healed.is_ready
    assert not [each.reason for each in healed.groups[0].queues if each.reason]


def test_one_is_tried_at_a_time_with_pauses_that_double() -> None:
    orders = Desk()

    with Harness(orders.consumer, settings=settings()) as desk:
        for number in range(MESSAGES):
            desk.send("orders", str(number))
        desk.sleep("5m")
        since = events(desk, "breaker opened")[0]["at"]
        trials = [at - since for at in orders.starts if at > since + 0.5]
        orders.is_broken = False
        desk.sleep("61s")
        assert MESSAGES == len(orders.handled) + given_up(desk), "a mended handler waits for a minute at most"

    gaps = [round(after - before) for before, after in zip([0.0, *trials], trials, strict=False)]
    assert [1, 2, 4, 8, 16, 32] == gaps[:6]
    assert {60} == set(gaps[6:])


def test_handlers_that_time_out_open_it_too() -> None:
    orders = Desk()
    orders.is_broken, orders.hangs = False, True

    with Harness(orders.consumer, settings=settings(timeout="2s", expiry="dead_letter")) as desk:
        for number in range(MESSAGES):
            desk.send("orders", str(number))
        desk.sleep("30s")
        lost = given_up(desk)
        (line,) = events(desk, "breaker opened")
        orders.hangs = False
        desk.settle(within="5m")
        assert MESSAGES == len(orders.handled) + given_up(desk)

    assert line["reason"].startswith("no result within `timeout` (")
    assert LIMIT <= lost <= LIMIT + 2 * CONCURRENCY + 4


@pytest.mark.parametrize("answer", [DeadLetter("of no use"), RetryLater("1s")])
def test_answers_do_not_open_it(answer: object) -> None:
    @consumer("orders", "billing")
    async def handler(_: Message) -> object:
        return answer

    with Harness(handler, settings=settings()) as desk:
        for number in range(5 * LIMIT):
            desk.send("orders", str(number))
        desk.settle()
        assert 5 * LIMIT == len(desk.dead_letters("billing"))
        assert not events(desk, "breaker opened")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_async", [True, False], ids=["awaited", "threads"])
def test_a_poison_minority_does_not_open_it(way: str, *, is_async: bool) -> None:
    """One worker goes along whole pulls without suspending, and their successes are counted as they happen."""
    options, chosen = WAYS[way]

    def act(message: Message) -> None:
        if not int(bytes(message.body)) % 3:
            raise ValueError("poison")

    async def awaited(message: Message) -> None:
        act(message)

    def plain(message: Message) -> None:
        act(message)

    def batch(messages: list[Message]) -> list[object]:
        return [ValueError("poison") if not int(bytes(each.body)) % 3 else None for each in messages]

    function: Any = batch if "batch" in options else awaited if is_async else plain
    handler = consumer("orders", "billing", **options)(function)
    with Harness(handler, settings=settings(**{"concurrency": 1, **chosen})) as desk:
        for number in range(MESSAGES):
            desk.send("orders", str(number), properties={"__SHARDINGKEY": str(number % 16)})
        desk.settle()
        desk.sleep("1s")  # the last popped one's event follows the answer to its acknowledgement
        assert MESSAGES // 3 == given_up(desk)
        assert not events(desk, "breaker opened")


def test_few_poison_messages_of_a_quiet_topic_do_not_open_it() -> None:
    """Ten that are tried seven times each are ten failures."""
    orders = Desk()

    with Harness(orders.consumer, settings=settings(max_retries=6)) as desk:
        for number in range(10):
            desk.send("orders", str(number))
        desk.settle()
        assert 10 == len(desk.dead_letters("billing"))
        assert not events(desk, "breaker opened")


@pytest.mark.parametrize("orderly", [False, True])
def test_one_topic_is_held_and_another_of_the_group_goes_on(*, orderly: bool) -> None:
    orders, handled = Desk(orderly=orderly), []

    @consumer("refunds", "billing", orderly=orderly)
    async def refund(message: Message) -> None:
        handled.append(bytes(message.body))

    with Harness([orders.consumer, refund], settings=settings()) as desk:
        for number in range(100):
            desk.send("orders", str(number))
            desk.send("refunds", str(number))
        desk.sleep("10s")
        assert 100 == len(handled), "its successes close nothing, and it waits for nobody"
        assert given_up(desk) <= LIMIT + CONCURRENCY + 4
        assert ["orders"] == [each.topic for each in desk.snapshot().groups[0].breakers]
        for number in range(100):
            desk.send("refunds", str(number))
        desk.sleep("2s")
        assert 200 == len(handled)
        orders.is_broken = False
        desk.settle(within="2m")
        assert 100 == len(orders.handled) + given_up(desk)


@pytest.mark.parametrize("topics", [1, 2])
def test_what_was_sent_back_is_held_with_its_topic_and_uses_few_attempts(topics: int) -> None:
    """After ten seconds they would all fail once more, and be dead letters with the next."""
    orders, refunds = Desk(), []

    @consumer("refunds", "billing")
    async def refund(message: Message) -> None:
        refunds.append(bytes(message.body))

    consumers = [orders.consumer, refund][:topics]
    with Harness(consumers, settings=settings(max_retries=2)) as desk:
        for number in range(MESSAGES):
            desk.send("orders", str(number))
        desk.sleep("30m")
        letters = len(desk.dead_letters("billing"))
        tried = orders.tries
        orders.is_broken = False
        desk.settle(within="10m")
        assert MESSAGES == len(orders.handled) + len(desk.dead_letters("billing"))

    assert letters <= 30, "a trial a minute at most"
    assert tried <= LIMIT + CONCURRENCY + 40


def test_a_changed_number_holds_at_once() -> None:
    orders = Desk()

    with Harness(orders.consumer, settings=settings(breaker=1_000)) as desk:
        for number in range(100):
            desk.send("orders", str(number))
        desk.sleep("2s")
        assert 100 == len(desk.dead_letters("billing"))
        adopt(desk, breaker=50)
        (line,) = events(desk, "breaker opened")
        assert 100 == line["failures"]
        for number in range(100):
            desk.send("orders", str(number))
        desk.sleep("20s")
        assert len(desk.dead_letters("billing")) <= 110
        adopt(desk, breaker=0)
        desk.sleep("2s")
        assert 200 == len(desk.dead_letters("billing"))
        assert desk.snapshot().is_ready
        assert ["the setting was changed"] == [line["reason"] for line in events(desk, "breaker closed")]


def of(desk: Harness) -> App:
    app = desk._cluster.apps[0].app
    assert app is not None
    return app


def inside(desk: Harness, act: Callable[[], object]) -> None:
    """Call it where the application runs."""

    async def called() -> None:
        act()

    async def calling() -> None:
        node = desk._cluster.apps[0].node
        assert node is not None
        await desk._cluster.loop.spawn(node, called(), name="called")

    desk._run(calling())


def adopt(desk: Harness, **changed: Any) -> None:
    consumers = {"consumers": {"billing": ConsumerSettings.model_validate(settings(**changed)["consumers"]["billing"])}}
    inside(desk, lambda: of(desk).adopt(of(desk).settings.model_copy(update=consumers)))


@pytest.mark.parametrize("way", WAYS)
def test_a_stop_waits_for_nothing_that_is_held(way: str) -> None:
    options, chosen = WAYS[way]
    orders = Desk(**options)

    with Harness(orders.consumer, settings=settings(**chosen)) as desk:
        for number in range(MESSAGES):
            desk.send("orders", str(number), properties={"__SHARDINGKEY": str(number % 16)})
        desk.sleep("40s")
        assert events(desk, "breaker opened")
        before = desk.now
        desk._run(desk._cluster.leave_all())
        assert desk.now - before < 5
        desk.restart()
        orders.is_broken = False
        desk.settle(within="5m")
        lost = given_up(desk)

    assert MESSAGES <= len(orders.handled) + lost
    assert lost <= 2 * (LIMIT + IN_HAND.get(way, CONCURRENCY)) + 10


def test_a_paused_group_tries_nothing_and_goes_on_with_its_trials() -> None:
    orders = Desk()

    with Harness(orders.consumer, settings=settings()) as desk:
        for number in range(MESSAGES):
            desk.send("orders", str(number))
        desk.sleep("4s")
        inside(desk, lambda: of(desk).pause("billing"))
        tried = orders.tries
        desk.sleep("5m")
        assert orders.tries <= tried + 1
        orders.is_broken = False
        inside(desk, lambda: of(desk).resume("billing"))
        desk.settle(within="2m")
        assert MESSAGES == len(orders.handled) + given_up(desk)


def test_a_queue_that_is_reset_while_it_is_held_goes_on_from_there() -> None:
    orders = Desk()

    with Harness(orders.consumer, settings=settings()) as desk:
        for number in range(MESSAGES):
            desk.send("orders", str(number))
        desk.sleep("10s")
        lost = given_up(desk)
        (group,) = of(desk)._groups
        inside(desk, lambda: [group.reset(queue, 0) for queue in list(group.owned) if queue.topic == "orders"])
        orders.is_broken = False
        desk.settle(within="5m")
        assert {str(number) for number in range(MESSAGES)} == set(orders.handled)
        assert given_up(desk) <= lost + 1


def test_bodies_that_cannot_be_read_have_a_limit_of_their_own() -> None:
    @consumer("orders", "billing")
    async def handler(order: dict[str, Any]) -> None:
        raise AssertionError("never called")

    with Harness(handler, settings=settings(undecodable_max=0)) as desk:
        for _ in range(5 * LIMIT):
            desk.send("orders", "{")
        desk.settle()
        assert 5 * LIMIT == len(desk.dead_letters("billing"))
        assert not events(desk, "breaker opened")
