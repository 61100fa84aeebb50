"""Handlers that publish what they return, in a whole application in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from framework import Ack, Message, Retry, RetryLater, consumer, publishes, resource
from framework.errors import BrokerUnreachable
from framework.runtime.app import App
from framework.testing import Harness

invoices: list[tuple[str, list[str]]] = []


@consumer("invoices", "post")
async def post(message: Message) -> None:
    invoices.append((message.body.decode(), message.keys))


@pytest.fixture(autouse=True)
def _silence() -> None:
    invoices.clear()


def kinds(events: list[dict[str, Any]], group: str) -> Counter[str]:
    return Counter(event["event"] for event in events if event["group"] == group)


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_what_is_returned_is_sent_and_outcomes_stay_outcomes(*, is_async: bool, orderly: bool) -> None:
    def act(body: str) -> object:
        match body:
            case "nothing":
                return None
            case "later":
                return RetryLater("1s")
            case _:
                return [f"for {body}", Message("invoices", "by itself", keys=body)]

    async def act_async(body: str) -> object:
        return act(body)

    handler: Any = publishes("invoices")(act_async if is_async else act)
    settings = {"consumers": {"billing": {"max_retries": 0}}}
    with Harness([consumer("orders", "billing", orderly=orderly)(handler), post], settings=settings) as desk:
        for body in ("tea", "nothing", "later"):
            desk.send("orders", body)
        events = desk.settle()
    assert Counter(handled=2, dead_lettered=1) == kinds(events, "billing")
    assert [("by itself", ["tea"]), ("for tea", [])] == sorted(invoices)


def test_a_send_that_fails_is_tried_again_whatever_is_declared_about_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []
    publish = App._publish

    async def fails_at_first(app: App, message: Message) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise BrokerUnreachable("broker-a: gone")
        await publish(app, message)

    monkeypatch.setattr(App, "_publish", fails_at_first)

    @consumer("orders", "billing", retry=Retry(on=ValueError))
    @publishes("invoices")
    async def bill(body: str) -> str:
        return body

    with Harness([bill, post]) as desk:
        desk.send("orders", "tea")
        events = desk.settle()
    assert Counter(retry=1, handled=1) == kinds(events, "billing")
    assert [("tea", [])] == invoices


def test_with_explicit_ack_what_is_published_is_an_answer() -> None:
    answers: list[object] = [None, "tea", Ack()]

    @consumer("orders", "billing")
    @publishes("invoices")
    async def bill(message: Message) -> object:
        return answers.pop(0)

    with Harness([bill, post], settings={"consumers": {"billing": {"explicit_ack": True}}}) as desk:
        desk.send("orders", "x")
        assert Counter(retry=1, handled=1) == kinds(desk.settle(), "billing")
    assert [("tea", [])] == invoices
    assert [Ack()] == answers


def test_resources_are_closed_before_it_is_sent() -> None:
    heard: list[str] = []

    @resource(scope="message")
    def session() -> Iterator[str]:
        yield "session"
        heard.append("committed")

    @consumer("orders", "billing")
    @publishes("invoices")
    def bill(body: str, session: str) -> str:
        return f"{body} in {session}"

    with Harness([bill, post]) as desk:
        desk.send("orders", "tea")
        desk.settle()
    assert (["committed"], [("tea in session", [])]) == (heard, invoices)
