"""Resources in a whole application in virtual time: when they are opened and closed, and what a failure of one is."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

import pytest

from framework import Message, RetryLater, consumer, resource
from framework.testing import Harness
from framework.testing.errors import Violation

heard: list[str] = []


@pytest.fixture(autouse=True)
def _silence() -> None:
    heard.clear()


@resource
def pool() -> Iterator[str]:
    heard.append("pool opened")
    yield "pool"
    heard.append("pool closed")


@resource
async def cache(pool: str) -> AsyncIterator[str]:
    await asyncio.sleep(0.1)
    heard.append(f"cache opened on {pool}")
    yield "cache"
    heard.append("cache closed")


@resource(scope="message")
def session(pool: str, message: Message) -> Iterator[str]:
    try:
        yield f"session of {message.body.decode()} on {pool}"
    except ValueError as error:
        heard.append(f"rolled back: {error}")
    else:
        if message.body == b"torn":
            raise OSError("disk full")
        heard.append("committed")


@resource(scope="message")
async def async_session(session: str) -> AsyncIterator[str]:
    try:
        yield f"async {session}"
    finally:
        heard.append("left")


def kinds(events: list[dict[str, Any]]) -> Counter[str]:
    return Counter(event["event"] for event in events)


@pytest.mark.parametrize("orderly", [False, True])
def test_the_application_s_own_are_opened_once_and_closed_in_reverse(*, orderly: bool) -> None:
    @consumer("orders", "billing", orderly=orderly)
    async def bill(message: Message, cache: str, *, pool: str) -> None:
        heard.append(f"{message.body.decode()} with {cache} and {pool}")

    @consumer("orders", "audit")
    def audit(message: Message, pool: str) -> None:
        assert pool == "pool"

    with Harness([bill, audit]) as desk:
        desk.send("orders", "a")
        assert Counter(handled=2) == kinds(desk.settle())
        desk.send("orders", "b")
        assert Counter(handled=2) == kinds(desk.settle())

    opened, closed = ["pool opened", "cache opened on pool"], ["cache closed", "pool closed"]
    assert [*opened, "a with cache and pool", "b with cache and pool", *closed] == heard


@pytest.mark.parametrize("is_async", [False, True])
def test_a_message_s_own_is_opened_around_each_call(*, is_async: bool) -> None:
    def act(message: Message, session: str) -> RetryLater | None:
        assert session == f"session of {message.body.decode()} on pool"
        if message.body == b"bad" and message.attempt == 1:
            raise ValueError("no")
        return None

    async def act_async(message: Message, it: Annotated[str, session]) -> RetryLater | None:
        return act(message, it)

    handler: Any = act_async if is_async else act
    with Harness(consumer("orders", "billing")(handler)) as desk:
        desk.send("orders", "good")
        desk.send("orders", "bad")
        assert Counter(handled=2, retry=1) == kinds(desk.settle())

    assert Counter(committed=2, **{"rolled back: no": 1, "pool opened": 1, "pool closed": 1}) == Counter(heard), (
        "what a teardown swallows is no success"
    )


@pytest.mark.parametrize("is_async", [False, True])
def test_a_teardown_that_fails_fails_the_message(*, is_async: bool) -> None:
    def act(body: str, session: str) -> None: ...
    async def act_async(body: str, session: str, async_session: str) -> None: ...

    handler: Any = act_async if is_async else act
    settings = {"consumers": {"billing": {"max_retries": 0}}}
    with Harness(consumer("orders", "billing")(handler), settings=settings) as desk:
        desk.send("orders", "torn")
        assert Counter(dead_lettered=1) == kinds(desk.settle())


def test_a_body_that_cannot_be_read_opens_nothing() -> None:
    @consumer("orders", "billing")
    async def bill(order: dict[str, int], session: str) -> None: ...

    with Harness(bill) as desk:
        desk.send("orders", "nonsense")
        assert Counter(dead_lettered=1) == kinds(desk.settle())
    assert ["pool opened", "pool closed"] == heard


@pytest.mark.parametrize("is_async", [False, True])
def test_a_batch_opens_it_once(*, is_async: bool) -> None:
    @resource(scope="message")
    def transaction(pool: str) -> Iterator[str]:
        yield "transaction"
        heard.append("committed")

    def act(bodies: list[str], transaction: str, *, pool: str) -> None:
        heard.append(f"{len(bodies)} in {transaction} on {pool}")

    async def act_async(bodies: list[str], transaction: str, *, pool: str) -> None:
        act(bodies, transaction, pool=pool)

    handler: Any = act_async if is_async else act
    with Harness(consumer("orders", "billing", batch=4, linger="1s")(handler)) as desk:
        for number in range(4):
            desk.send("orders", str(number))
        assert Counter(handled=4) == kinds(desk.settle())
    assert ["pool opened", "4 in transaction on pool", "committed", "pool closed"] == heard


def test_one_that_cannot_be_opened_ends_the_start_and_closes_the_others() -> None:
    @resource
    def broken(pool: str) -> str:
        raise OSError("no route to host")

    @consumer("orders", "billing")
    async def bill(message: Message, broken: str) -> None: ...

    complaint = "resource 'broken' could not be opened: OSError: no route to host"
    with pytest.raises(Violation, match=complaint), Harness(bill) as desk:
        desk.settle()
    assert ["pool opened", "pool closed"] == heard


def test_one_that_cannot_be_closed_hinders_no_other() -> None:
    @resource
    async def stubborn(pool: str) -> AsyncIterator[str]:
        yield "stubborn"
        raise OSError("gone already")

    @consumer("orders", "billing")
    async def bill(message: Message, stubborn: str) -> None: ...

    with Harness(bill) as desk:
        desk.send("orders", "a")
        desk.settle()
    assert ["pool opened", "pool closed"] == heard
    (line,) = [line for line in desk.logs if line["event"] == "resource not closed"]
    assert ("stubborn", "OSError('gone already')") == (line["resource"], line["reason"])
