"""A handler that answers with a class, or with what is for others, fails: in every way in which handlers are run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from framework import (
    Ack,
    Commit,
    Consumer,
    DeadLetter,
    Delivery,
    Drop,
    Extend,
    Message,
    Retry,
    RetryLater,
    Rollback,
    Suspend,
    consumer,
    publishes,
    replies,
)
from framework.hooks.host import PluginHost
from framework.hooks.markers import hookimpl
from framework.testing import Harness


async def save() -> None:
    raise AssertionError("never runs")


def _same(answer: object) -> object:
    return answer


CLASSES = (Ack, Commit, DeadLetter, Drop, RetryLater, Rollback, Suspend, ValueError, KeyboardInterrupt)
ANSWERS: Mapping[str, Callable[[], object]] = {
    **{each.__name__: partial(_same, each) for each in CLASSES},
    "an instance": lambda: OSError("an instance"),
    "an interrupt": lambda: KeyboardInterrupt("an interrupt"),
    "Retry": lambda: Retry(max=1),
    "Extend": Extend,
    "coroutine": save,
    "generator": lambda: (each for each in "x"),
}  # fmt: skip


def answer_to(message: Message) -> Any:
    return ANSWERS[message.body.decode()]()


Decorated = Callable[..., Consumer[..., Any]]


def awaited(**options: Any) -> Consumer[..., Any]:
    @consumer("orders", "billing", **options)
    async def bill(order: Message) -> Any:
        return answer_to(order)

    return bill


def plain(**options: Any) -> Consumer[..., Any]:
    @consumer("orders", "billing", **options)
    def bill(order: Message) -> Any:
        return answer_to(order)

    return bill


def with_delivery(**options: Any) -> Consumer[..., Any]:
    @consumer("orders", "billing", **options)
    async def bill(order: Message, delivery: Delivery) -> Any:
        return answer_to(order)

    return bill


def batch(**options: Any) -> Consumer[..., Any]:
    @consumer("orders", "billing", batch=1, **options)
    async def bill(orders: list[Message]) -> Any:
        return answer_to(orders[0])

    return bill


def plain_batch(**options: Any) -> Consumer[..., Any]:
    @consumer("orders", "billing", batch=1, **options)
    def bill(orders: list[Message]) -> Any:
        return answer_to(orders[0])

    return bill


def batch_with_delivery(**options: Any) -> Consumer[..., Any]:
    @consumer("orders", "billing", batch=1, **options)
    async def bill(orders: list[Message], deliveries: list[Delivery]) -> Any:
        return answer_to(orders[0])

    return bill


def listed(**options: Any) -> Consumer[..., Any]:
    @consumer("orders", "billing", batch=4, **options)
    async def bill(orders: list[Message]) -> Any:
        return [answer_to(order) for order in orders]

    return bill


def publishing(**options: Any) -> Consumer[..., Any]:
    @consumer("orders", "billing", **options)
    @publishes("receipts")
    async def bill(order: Message) -> Any:
        return answer_to(order)

    return bill


def publishing_a_list(**options: Any) -> Consumer[..., Any]:
    @consumer("orders", "billing", **options)
    @publishes("receipts")
    def bill(order: Message) -> Any:
        return [answer_to(order)]

    return bill


def replying(**options: Any) -> Consumer[..., Any]:
    @consumer("orders", "billing", **options)
    @replies
    async def bill(order: Message) -> Any:
        return answer_to(order)

    return bill


class Watching:
    """Has a context around each run, and hears of its end."""

    def __init__(self) -> None:
        self.left: list[object] = []
        self.kinds: list[str] = []

    @hookimpl
    def around_consume(self, delivery: Delivery) -> Watching:
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.left.append(error)

    @hookimpl
    def after_consume(self, delivery: Delivery, outcome: object, elapsed_ms: float, kind: str) -> None:
        self.kinds.append(kind)


WAYS: Mapping[str, tuple[Decorated, dict[str, Any], dict[str, Any]]] = {
    "awaited": (awaited, {}, {}),
    "in threads": (plain, {}, {}),
    "with its delivery": (with_delivery, {}, {}),
    "in batches": (batch, {}, {}),
    "in batches in threads": (plain_batch, {}, {}),
    "in batches with deliveries": (batch_with_delivery, {}, {}),
    "a list for a batch": (listed, {}, {}),
    "once": (awaited, {"once": "1h"}, {}),
    "declared retries": (awaited, {"retry": Retry(max=0)}, {}),
    "explicit_ack": (awaited, {}, {"explicit_ack": True}),
    "explicit_ack in threads": (plain, {}, {"explicit_ack": True}),
    "orderly": (awaited, {"orderly": True}, {}),
    "orderly in threads": (plain, {"orderly": True}, {}),
    "orderly by key": (awaited, {"orderly": "key"}, {}),
    "orderly in batches": (batch, {"orderly": True}, {}),
    "commits by hand": (awaited, {"orderly": True, "commit": "manual"}, {}),
    "broadcasting": (awaited, {"broadcasting": True}, {}),
    "popping": (awaited, {}, {"delivery": "pop"}),
    "publishing": (publishing, {}, {}),
    "publishing a list": (publishing_a_list, {}, {}),
    "replying": (replying, {}, {}),
}


def ends(desk: Harness) -> dict[str, dict[str, Any]]:
    """How each message ended, by its body."""
    for name in ANSWERS:
        desk.send("orders", name, keys=name.replace(" ", "-"))
    desk.settle()
    desk.sleep("1m")  # of what was popped its broker is told last
    return {event["key"].replace("-", " "): event for event in desk.events}


@pytest.mark.parametrize("way", WAYS)
def test_no_way_of_running_a_handler_takes_a_mistaken_answer_for_success(way: str) -> None:
    decorated, declared, settings = WAYS[way]
    with Harness(decorated(**declared), settings={"consumers": {"billing": {"max_retries": 0, **settings}}}) as desk:
        events = ends(desk)
        assert [] == desk.published("receipts")

    assert set(ANSWERS) == set(events)
    assert {"dropped" if way == "broadcasting" else "dead_lettered"} == {each["event"] for each in events.values()}
    for name, event in events.items():
        assert name in str(event["reason"]), event
        assert event["error"] in {"TypeError", "ValueError", "OSError"}, event


@pytest.mark.parametrize("way", ["awaited", "in threads", "in batches", "publishing"])
def test_plugins_hear_of_a_failure_too(way: str) -> None:
    """A transaction of theirs must not be committed for it."""
    watching = Watching()
    host = PluginHost(objects={"watching": watching}, discover=lambda: ())
    decorated, declared, _ = WAYS[way]
    with Harness(decorated(**declared), settings={"consumers": {"billing": {"max_retries": 0}}}, plugins=host) as desk:
        ends(desk)

    assert len(ANSWERS) == len(watching.left)
    assert all(isinstance(error, Exception) for error in watching.left)
    assert {"exception"} == set(watching.kinds)


def test_a_mistaken_answer_is_not_remembered_as_handled() -> None:
    answers: list[Any] = [RetryLater, None]

    @consumer("orders", "billing", once="1d")
    async def bill(order: Message) -> Any:
        await asyncio.sleep(0)
        return answers.pop(0)

    with Harness(bill) as desk:
        desk.send("orders", b"1")
        assert ["retry", "handled"] == [event["event"] for event in desk.settle()]
    assert [] == answers
