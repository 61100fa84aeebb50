"""Harness: a user's test of an application, with the real runtime and no time lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from framework import App, DeadLetter, Message, RetryLater, consumer, publishes
from framework.declare import Consumer
from framework.hooks import hookimpl
from framework.mistakes import GroupUnknown, UnknownKey
from framework.settings.schema import AppSettings
from framework.testing import Harness
from framework.testing.errors import Violation


def recording(seen: list[bytes]) -> Consumer[..., Any]:
    @consumer(topic="orders", group="billing")
    async def bill(order: Message) -> RetryLater | DeadLetter | None:
        await asyncio.sleep(0.5)
        seen.append(order.body)
        if order.body == b"declined" and order.attempt == 1:
            return RetryLater("1m", reason="card")
        if order.body == b"nonsense":
            return DeadLetter("not an order")
        return None

    return bill


def test_what_is_sent_is_handled() -> None:
    seen: list[bytes] = []
    with Harness(recording(seen)) as desk:
        for number in range(10):
            desk.send("orders", f"order {number}", keys=f"k{number}", tags="created")
        events = desk.settle()

    assert 10 == len(seen)
    assert ["handled"] * 10 == [event["event"] for event in events]
    assert {f"k{number}" for number in range(10)} == {event["key"] for event in events}


def test_a_retry_comes_after_its_delay() -> None:
    seen: list[bytes] = []
    with Harness(recording(seen)) as desk:
        desk.send("orders", b"declined")
        began = desk.now
        events = desk.settle()

        assert 60 <= desk.now - began < 70
    assert ["retry", "handled"] == [event["event"] for event in events]
    assert [1, 2] == [event["attempt"] for event in events]


def test_dead_letters_can_be_looked_at() -> None:
    with Harness(recording([])) as desk:
        desk.send("orders", b"nonsense", properties={"colour": "red"})
        desk.settle()

        (dead,) = desk.dead_letters("billing")
        assert (b"nonsense", "red") == (dead.body, dead.properties["colour"])


def test_half_an_hour_of_retries_passes_in_no_time() -> None:
    @consumer(topic="orders", group="billing")
    def refuse(order: Message) -> None:
        raise ValueError(order.body)

    with Harness(refuse, settings={"consumers": {"billing": {"max_retries": 8}}}) as desk:
        desk.send("orders", b"poison")
        events = desk.settle()

        assert 1_300 <= desk.now < 1_400
        assert 1 == len(desk.dead_letters("billing"))
        assert 9 == sum("handler failed" == line["event"] for line in desk.logs)
    assert ["retry"] * 8 + ["dead_lettered"] == [event["event"] for event in events]


def test_settle_answers_only_what_is_new() -> None:
    with Harness(recording([])) as desk:
        desk.send("orders", b"one")
        assert 1 == len(desk.settle())
        desk.send("orders", b"two")
        assert 1 == len(desk.settle())
        assert [] == desk.settle()
        assert 2 == len(desk.events)
        desk.sleep("10m")
        assert desk.now > 600
        assert 2 == desk.snapshot().groups[0].handled


def test_what_never_ends_is_named() -> None:
    @consumer(topic="orders", group="billing")
    async def wait_for_ever(order: Message) -> None:
        await asyncio.sleep(10**6)

    def use() -> None:
        with Harness(wait_for_ever) as desk:
            desk.send("orders", b"one")
            desk.settle(within="30s")

    with pytest.raises(Violation, match=r"not within 30s: billing orders@broker-a:\d is at 0 of 1"):
        use()


def test_an_app_and_settings_are_taken_as_they_are() -> None:
    seen: list[bytes] = []
    settings = AppSettings.model_validate({"consumers": {"billing": {"max_retries": 1, "concurrency": 1}}})

    @consumer(topic="orders", group="billing")
    async def refuse(order: Message) -> None:
        seen.append(order.body)
        raise ValueError("no")

    with Harness(App(settings, [refuse])) as desk:
        desk.send("orders", b"x")
        events = desk.settle()
    assert ["retry", "dead_lettered"] == [event["event"] for event in events]

    with Harness([refuse], settings={"consumers": {"billing": {"max_retries": 0}}}) as desk:
        desk.send("orders", b"x")
        assert ["dead_lettered"] == [event["event"] for event in desk.settle()]


def test_a_handler_that_reaches_outside_is_told_so() -> None:
    @consumer(topic="orders", group="billing")
    async def call_out(order: Message) -> None:
        await asyncio.open_connection("127.0.0.1", 80)

    with Harness(call_out, settings={"consumers": {"billing": {"max_retries": 0}}}) as desk:
        desk.send("orders", b"x")
        desk.settle()
        (line,) = [line for line in desk.logs if line["event"] == "handler failed"]
    assert "SimEscape" in line["error"]
    assert "give the handler a fake" in line["error"]


def test_harnesses_side_by_side_know_nothing_of_each_other() -> None:
    results: dict[int, list[bytes]] = {}

    def use(number: int) -> None:
        seen: list[bytes] = []
        with Harness(recording(seen)) as desk:
            desk.send("orders", f"{number}")
            desk.settle()
        results[number] = seen

    threads = [threading.Thread(target=use, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {number: [f"{number}".encode()] for number in range(3)} == results


def test_a_broadcasting_group_is_settled_when_its_offsets_are_on_the_disk() -> None:
    seen: list[bytes] = []

    @consumer(topic="prices", group="cache", broadcasting=True)
    async def refresh(message: Message) -> RetryLater | None:
        seen.append(message.body)
        return RetryLater("1s") if len(seen) == 1 else None

    with Harness(refresh, settings={"consumers": {"cache": {"max_retries": 2}}}) as desk:
        desk.send("prices", b"1")
        events = desk.settle(within="1m")

    assert [b"1", b"1"] == seen
    assert "handled" == events[-1]["event"]


def test_the_same_seed_gives_the_same_story() -> None:
    def play(seed: int) -> list[object]:
        with Harness(recording([]), seed=seed) as desk:
            for number in range(5):
                desk.send("orders", f"{number}")
            return [(event["message_id"], event["elapsed_ms"]) for event in desk.settle()]

    assert play(3) == play(3) != play(4)


def test_outside_its_with_statement_it_is_of_no_use() -> None:
    desk = Harness(recording([]))
    with pytest.raises(AssertionError, match="with"):
        desk.send("orders", b"x")


@consumer("orders", "billing")
@publishes("receipts")
async def receipt(order: Message) -> Message | None:
    if order.body == b"bad":
        raise ValueError("no such card")
    if order.body == b"slow":
        await asyncio.sleep(60)
    return Message("receipts", b"paid " + order.body, tags="paid", keys="r1", properties={"colour": "red"})


FEW = {"consumers": {"billing": {"max_retries": 2}}}


def test_what_handlers_sent_can_be_looked_at_and_what_the_test_sent_is_not_among_it() -> None:
    with Harness(receipt, settings=FEW) as desk:
        desk.send("orders", b"1")
        desk.send("receipts", b"mine")
        desk.send("orders", b"bad")
        desk.settle()

        (sent,) = desk.published()
        assert ("receipts", b"paid 1", "paid", ["r1"], "red") == (
            sent.topic, sent.body, sent.tags, sent.keys, sent.properties["colour"],
        )  # fmt: skip
        assert [sent.message_id] == [each.message_id for each in desk.published("receipts")]
        assert [] == desk.published("orders")


def test_the_attempts_at_a_message_are_told_by_what_was_sent_or_by_its_id() -> None:
    with Harness(receipt, settings=FEW) as desk:
        bad, good = desk.send("orders", b"bad"), desk.send("orders", b"1")
        desk.settle()

        assert [("retry", 1), ("retry", 2), ("dead_lettered", 3)] == [
            (each["event"], each["attempt"]) for each in desk.attempts(bad)
        ]
        assert {"ValueError"} == {each["error"] for each in desk.attempts(bad.message_id)}
        assert ["handled"] == [each["event"] for each in desk.attempts(good, "billing")]
        (dead,) = desk.dead_letters()
        assert 3 == len(desk.attempts(dead))


def test_a_dead_letter_says_why_it_is_one() -> None:
    with Harness(receipt, settings=FEW) as desk:
        desk.send("orders", b"bad", keys="k1", tags="new")
        desk.settle()

        (dead,) = desk.dead_letters()
        assert ("billing", "ValueError: no such card", "ValueError", 3) == (
            dead.group,
            dead.reason,
            dead.error,
            dead.attempts,
        )
        assert (b"bad", ["k1"], "new") == (dead.body, dead.keys, dead.tags)
        assert dead.message_id == dead.message.message_id


@pytest.mark.parametrize("orderly", [False, True])
def test_a_restart_drains_and_repeats_nothing(*, orderly: bool) -> None:
    seen: list[bytes] = []

    @consumer("orders", "billing", orderly=orderly)
    async def bill(order: Message) -> None:
        await asyncio.sleep(5)
        seen.append(order.body)

    with Harness(bill) as desk:
        desk.send("orders", b"1")
        desk.sleep("2s")
        desk.restart()
        assert [b"1"] == seen
        desk.send("orders", b"2")
        desk.settle()

    assert [b"1", b"2"] == seen


def test_a_crash_loses_what_ran_and_the_message_comes_again() -> None:
    began: list[bytes] = []

    @consumer("orders", "billing")
    async def bill(order: Message) -> None:
        began.append(order.body)
        await asyncio.sleep(60)

    with Harness(bill) as desk:
        sent = desk.send("orders", b"1")
        desk.sleep("10s")
        desk.crash()
        with pytest.raises(AssertionError, match="restart"):
            desk.settle()
        desk.send("orders", b"2")
        desk.sleep("1m")
        assert [] == desk.attempts(sent)
        desk.restart()
        desk.settle()

        assert ["handled"] == [each["event"] for each in desk.attempts(sent)]
    assert b"1" == began[0]
    assert [b"1", b"1", b"2"] == sorted(began)


def test_a_crash_may_be_the_end_of_a_test() -> None:
    with Harness(receipt) as desk:
        desk.send("orders", b"slow")
        desk.sleep("5s")
        desk.crash()

        assert [] == desk.published()


def test_what_is_sent_may_have_an_order_key_and_a_delay() -> None:
    seen: list[tuple[str, float]] = []

    @consumer("steps", "tracking", orderly="key")
    async def track(step: str, message: Message) -> None:
        seen.append((f"{message.properties['__SHARDINGKEY']} {step}", asyncio.get_running_loop().time()))

    with Harness(track) as desk:
        first, second = (desk.send("steps", step, order_key="17") for step in "ab")
        desk.send("steps", "later", order_key="18", delay="3h")
        desk.settle()

    assert first.queue == second.queue
    assert ["17 a", "17 b", "18 later"] == [what for what, _ in seen]
    assert seen[2][1] - seen[1][1] == pytest.approx(3 * 3600, abs=10)


def test_a_restart_may_bring_other_settings() -> None:
    @consumer("orders", "billing")
    async def bill(order: Message) -> None:
        raise ValueError("no stock")

    with Harness(bill, settings={"consumers": {"billing": {"max_retries": 0}}}) as desk:
        before = desk.send("orders", "1")
        desk.settle()
        desk.restart(settings={"consumers": {"billing": {"max_retries": 2}}})
        after = desk.send("orders", "2")
        desk.settle()
        with pytest.raises(UnknownKey, match="max_retires"):
            desk.restart(settings={"consumers": {"billing": {"max_retires": 2}}})
        again = desk.send("orders", "3")  # the mistake stopped nothing
        desk.settle()

    assert [1, 3, 3] == [len(desk.attempts(each)) for each in (before, after, again)]


def test_a_restart_gives_plugins_their_new_settings() -> None:
    @consumer("orders", "billing")
    async def bill(order: Message) -> None: ...

    local = {"local": [f"{__name__}:Greeting"]}
    with Harness(bill, settings={"plugins": {**local, "settings": {"test_harness": {"text": "hello"}}}}) as desk:
        desk.restart(settings={"plugins": {**local, "settings": {"test_harness": {"text": "goodbye"}}}})
        desk.send("orders", "1")
        desk.settle()

    assert ["goodbye"] == Greeting.said


class GreetingSettings(BaseModel):
    text: str


class Greeting:
    said: ClassVar[list[str]] = []

    def __init__(self, settings: GreetingSettings) -> None:
        self._text = settings.text

    @staticmethod
    @hookimpl
    def register_settings() -> type[GreetingSettings]:
        return GreetingSettings

    @hookimpl
    def after_consume(self) -> None:
        self.said.append(self._text)


@pytest.mark.parametrize("ask", [Harness.dead_letters, lambda desk, group: desk.attempts("x", group)])
def test_a_mistyped_group_is_no_empty_answer(ask: Callable[[Harness, str], object]) -> None:
    @consumer("orders", "billing")
    async def bill(order: Message) -> None: ...

    with Harness(bill) as desk, pytest.raises(GroupUnknown, match="no handler is in group 'biling'; did you mean 'bil"):
        ask(desk, "biling")
