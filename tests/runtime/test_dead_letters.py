"""Dead letters say why: in one line, in an event, and in properties that travel with them."""

from __future__ import annotations

from typing import Any

import pytest

from framework import DeadLetter, Message, RetryLater, consumer
from framework.model import death_reason
from framework.testing import Harness

WAYS = [
    {}, {"orderly": True}, {"orderly": "key"}, {"batch": 2}, {"batch": 2, "orderly": True},
]  # fmt: skip


def handler_of(act: Any, options: dict[str, Any], *, is_async: bool) -> Any:
    def plain(message: Message) -> object:
        return act(message)

    async def awaited(message: Message) -> object:
        return act(message)

    def batch(messages: list[Message]) -> object:
        return [act(each) for each in messages]

    async def batch_awaited(messages: list[Message]) -> object:
        return [act(each) for each in messages]

    chosen: Any = (batch_awaited if is_async else batch) if "batch" in options else awaited if is_async else plain
    return consumer("orders", "billing", **options)(chosen)


def settings(max_retries: int = 2) -> dict[str, Any]:
    return {"consumers": {"billing": {"max_retries": max_retries}}}


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("options", WAYS, ids=repr)
def test_the_reason_is_said_once_and_travels_with_the_dead_letter(options: dict[str, Any], *, is_async: bool) -> None:
    def act(_: Message) -> object:
        return DeadLetter("no such\x01order\x02\n17")

    with Harness(handler_of(act, options, is_async=is_async), settings=settings()) as desk:
        sent = desk.send("orders", "x", keys="A-17", properties={"colour": "red"})
        desk.sleep("1m")
        (letter,) = desk.dead_letters("billing")
        (event,) = desk.events
        (line,) = [line for line in desk.logs if line["event"] == "message dead-lettered"]

    told = letter.properties
    assert "no such order 17" == told[death_reason.REASON]
    assert not {death_reason.ERROR, death_reason.LINE} & set(told)
    assert ("1", "red", ["A-17"]) == (told[death_reason.ATTEMPTS], told["colour"], letter.keys)
    assert f"orders@{sent.queue.broker}:{sent.queue.number}:{sent.queue_offset}" == told[death_reason.ORIGIN]
    assert abs(int(told[death_reason.TIME]) - letter.stored_ms) < 5_000
    assert "@" in told[death_reason.MEMBER]
    assert ("dead_lettered", "DeadLetter", None) == (event["event"], event["outcome"], event["error"])
    assert "no such\x01order\x02\n17" == event["reason"]
    shown = ("group", "topic", "message_id", "keys", "attempts", "reason", "error", "level")
    assert ("billing", "orders", sent.message_id, ["A-17"], 1, "no such order 17", None, "warning") == tuple(
        line[name] for name in shown
    )


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("options", WAYS, ids=repr)
def test_used_up_retries_carry_the_last_error_and_the_place_of_the_first(
    options: dict[str, Any], *, is_async: bool
) -> None:
    def act(_: Message) -> object:
        raise ValueError("no stock")

    with Harness(handler_of(act, options, is_async=is_async), settings=settings()) as desk:
        desk.send("orders", "w", keys="other")
        sent = desk.send("orders", "x", keys="A-17")
        desk.sleep("5m")
        letters = [each for each in desk.dead_letters("billing") if each.message_id == sent.message_id]
        (letter,) = letters
        lines = [line for line in desk.logs if line["event"] == "message dead-lettered"]

    told = letter.properties
    assert ("ValueError: no stock", "ValueError", "3") == (
        told[death_reason.REASON], told[death_reason.ERROR], told[death_reason.ATTEMPTS]
    )  # fmt: skip
    assert f"orders@{sent.queue.broker}:{sent.queue.number}:{sent.queue_offset}" == told[death_reason.ORIGIN]
    assert f"tests/runtime/test_dead_letters.py:{act.__code__.co_firstlineno + 1}" == told[death_reason.LINE]
    assert [("ValueError", 3)] * 2 == [(line["error"], line["attempts"]) for line in lines]


def test_a_producer_s_words_of_that_name_are_not_believed() -> None:
    """And of an earlier end nothing is left where a message is retried by a copy of ours."""

    @consumer("orders", "billing")
    async def bill(message: Message) -> object:
        return DeadLetter("mine")

    with Harness(bill) as desk:
        forged = {"DEAD_LETTER_REASON": "forged", "DEAD_LETTER_ERROR": "Forged"}
        desk.send("orders", "x", properties=forged)
        desk.sleep("1m")
        (letter,) = desk.dead_letters("billing")

    assert "mine" == letter.properties[death_reason.REASON]
    assert death_reason.ERROR not in letter.properties


def test_a_long_reason_is_cut_and_a_full_message_goes_without_one() -> None:
    @consumer("orders", "billing")
    async def bill(message: Message) -> object:
        return DeadLetter("ü" * 100_000)

    with Harness(bill) as desk:
        desk.send("orders", "x")
        desk.send("orders", "full", properties={"room": "x" * 32_200})
        desk.sleep("1m")
        first, second = sorted(desk.dead_letters("billing"), key=lambda each: len(each.body))

    assert death_reason.REASON_BYTES_MAX >= len(first.properties[death_reason.REASON].encode())
    assert first.properties[death_reason.REASON].endswith("...")
    assert (b"full", None) == (second.body, second.properties.get(death_reason.REASON))


def test_a_storm_of_failures_is_summed_up() -> None:
    """2 % of 500 a second would be 600 tracebacks a minute."""

    @consumer("orders", "billing")
    async def bill(message: Message) -> object:
        if message.body == b"later":
            return RetryLater("2h", "no stock")
        raise KeyError(message.body.decode())

    with Harness(
        bill, settings={"consumers": {"billing": {"max_retries": 0, "concurrency": 20, "breaker": 0}}}
    ) as desk:
        for number in range(300):
            desk.send("orders", f"bad {number}")
        desk.sleep("3m")
        snapshot = desk.snapshot().groups[0]
        logs = [line for line in desk.logs if line["level"] != "debug"]
        events = [event["event"] for event in desk.events]

    def lines(event: str) -> list[dict[str, Any]]:
        return [line for line in logs if line["event"] == event]

    assert 300 == snapshot.dead_lettered == events.count("dead_lettered")
    assert len(lines("handler failed")) <= 3 * 4
    assert 300 == len(lines("handler failed")) + sum(line["count"] for line in lines("handler failed: more"))
    assert all("bad " in line["error"] for line in lines("handler failed: more")), "with the newest example"
    dead = len(lines("message dead-lettered")) + sum(line["count"] for line in lines("message dead-lettered: more"))
    assert 300 == dead


@pytest.mark.parametrize("orderly", [False, True])
def test_the_reasons_of_retries_are_summed_up_once_a_minute(*, orderly: bool) -> None:
    @consumer("orders", "billing", orderly="key" if orderly else False)
    async def bill(message: Message) -> object:
        return RetryLater("1s", f"no stock of {message.body.decode()}") if message.attempt == 1 else None

    with Harness(bill) as desk:
        for number in range(50):
            desk.send("orders", str(number), keys=str(number), properties={"__SHARDINGKEY": str(number)})
        desk.sleep("3m")
        logs = [line for line in desk.logs if line["level"] != "debug"]
        reasons = [event["reason"] for event in desk.events if event["event"] == "retry"]

    assert 50 == len(set(reasons))
    summed = [line for line in logs if line["event"] == "message retried: more"]
    assert 50 == sum(line["count"] for line in summed)
    assert len(summed) <= 3
    assert all(line["reason"].startswith("no stock of ") for line in summed)
    assert len([line for line in logs if line["event"] == "queue blocked"]) <= 3 * 4


def test_bodies_that_cannot_be_read_are_summed_up_too() -> None:
    @consumer("orders", "billing")
    async def bill(order: dict) -> None:  # type: ignore[type-arg]  # as users write it
        return

    chosen = {"consumers": {"billing": {"undecodable_max": 0}}}
    with Harness(bill, settings=chosen) as desk:
        for _ in range(50):
            desk.send("orders", "nonsense")
        desk.sleep("2m")
        letters = desk.dead_letters("billing")
        logs = [line for line in desk.logs if line["level"] != "debug"]

    assert 50 == len(letters)
    assert {"BodyUndecodable"} == {letter.properties[death_reason.ERROR] for letter in letters}
    told = [line for line in logs if line["event"] == "body undecodable"]
    more = [line["count"] for line in logs if line["event"] == "body undecodable: more"]
    assert len(told) <= 6
    assert 50 == len(told) + sum(more)


def test_what_was_counted_and_not_yet_written_is_written_when_the_group_stops() -> None:
    """Its minute is not over by then, and no other line would ever have the number."""

    @consumer("orders", "billing")
    async def bill(order: dict) -> object:  # type: ignore[type-arg]  # as users write it
        return RetryLater("2h", "no stock")

    with Harness(bill, settings={"consumers": {"billing": {"undecodable_max": 0}}}) as desk:
        for _ in range(20):
            desk.send("orders", "{}")
            desk.send("orders", "nonsense")
        desk.sleep("20s")
        before = [line for line in desk.logs if line["event"].endswith(": more")]
    logs = [line for line in desk.logs if line["level"] != "debug"]

    assert [] == before
    assert 20 == sum(line["count"] for line in logs if line["event"] == "message retried: more")
    told = [line for line in logs if line["event"] == "body undecodable"]
    more = [line["count"] for line in logs if line["event"] == "body undecodable: more"]
    assert 20 == len(told) + sum(more)
    assert len(told) < 20
