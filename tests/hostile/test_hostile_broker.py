"""Brokers that mean harm, against an application over real sockets: it goes on, names them, and paces what it asks."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count

import pytest
from structlog.testing import capture_logs

from framework import consumer
from framework.model.message import Message
from tests.hostile import frames
from tests.hostile.broker_peer import (
    CHANGED,
    PULL,
    RESET,
    RUNNING_INFO,
    STATUS,
    HostileBroker,
    offset_of,
    pulled,
    record,
)
from tests.hostile.frames import Received
from tests.patience import until
from tests.runtime.test_app import running as running_of

SYSTEM_BUSY = 2


running = partial(running_of, drain="1s")  # nobody confirms anything here


class Pace:
    """How long the event loop did nothing else, at worst."""

    def __init__(self) -> None:
        self.worst = 0.0

    async def watch(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.005)
            # The thread's own time: what others on this machine take of it is not the loop's fault.
            self.worst = max(self.worst, time.thread_time() - before)


GOOD = (5, 6, 7)
LIES: dict[str, Callable[[int], bytes]] = {
    "topic length": lambda offset: record(offset, topic_says=200),
    "topic length, shorter": lambda offset: record(offset, topic_says=2),
    "another topic": lambda offset: record(offset, topic=b"ordres"),
    "properties length": lambda offset: record(offset, properties=b"KEYS\x01k\x02", properties_say=30_000),
    "properties length, shorter": lambda offset: record(offset, properties=b"KEYS\x01k\x02", properties_say=3),
    "checksum": lambda offset: record(offset, crc=1),
    "size": lambda offset: record(offset, size_says=1 << 30),
    "size, negative": lambda offset: record(offset, size_says=-1),
    "size, too small": lambda offset: record(offset, size_says=40),
    "an offset that goes back": lambda offset: record(offset - 2),
    "an offset beyond": lambda offset: record(offset + 1_000),
    "an IPv6 host": lambda offset: record(offset, flag=0x10),
    "cut": lambda offset: record(offset)[:-4],
}


@pytest.mark.parametrize("lie", list(LIES))
def test_a_damaged_record_heals_when_the_bytes_are_right(lie: str) -> None:
    handled: Counter[int] = Counter()
    is_damaged = True

    @consumer(topic="orders", group="billing")
    async def handle(message: Message) -> None:
        handled[message.queue_offset] += len(message.body) + len(message.properties) - len(message.properties)

    def answer(asked: Received) -> bytes:
        offset = offset_of(asked)
        if asked.fields["topic"] != "orders" or offset > 7:
            return b""
        records = [LIES[lie](each) if is_damaged and each == 6 else record(each) for each in range(offset, 8)]
        return pulled(asked, 0, 8, b"".join(records))

    async def scenario() -> None:
        nonlocal is_damaged
        with HostileBroker(("orders",)).serving() as broker:
            broker.answers[PULL] = answer
            async with running(broker, handle):
                await until(lambda: [line for line in lines if line["event"] == "record damaged"])
                assert not handled
                is_damaged = False
                await until(lambda: len(handled) == 8)
                await asyncio.sleep(0.2)

    with capture_logs() as lines:
        asyncio.run(scenario())
    assert dict.fromkeys(range(8), 1) == handled
    (named,) = [line for line in lines if line["event"] == "record damaged"]
    assert ("evil", "orders@evil:0", 0) == (named["broker"], named["queue"], named["offset"])
    assert not [line for line in lines if line["event"] == "loop failed"]


@pytest.mark.parametrize("code", [0, 19, 20, 21])
def test_answers_that_bring_nothing_are_asked_for_seldom(code: int) -> None:
    """500 to 12,000 a second, while nobody counted."""

    @consumer(topic="orders", group="billing")
    async def handle(_: Message) -> None:
        return

    def complaints() -> int:
        return len([line for line in lines if line["event"] == "pulls not advancing"])

    async def scenario() -> float:
        began = time.monotonic()
        with HostileBroker(("orders",)).serving() as broker:
            broker.answers[PULL] = lambda asked: pulled(asked, code, offset_of(asked))
            async with running(broker, handle):
                await until(lambda: broker.asked[PULL] >= 3 and complaints(), "pulls that go on")
                await asyncio.sleep(4)
                return broker.asked[PULL] / (time.monotonic() - began)

    with capture_logs() as lines:
        a_second = asyncio.run(scenario())
    assert a_second <= 3.5
    assert 1 == complaints()


def test_a_hundred_thousand_records_for_one_pull_hold_up_nobody() -> None:
    handled: Counter[int] = Counter()
    flood = b"".join(map(record, range(100_000)))
    pace = Pace()

    @consumer(topic="orders", group="billing")
    async def handle(message: Message) -> None:
        handled[message.queue_offset] += 1

    def answer(asked: Received) -> bytes:
        first = offset_of(asked)
        body = flood if not first else b"".join(map(record, range(first, first + 32)))
        return pulled(asked, 0, 100_000 if not first else first + 32, body, end=100_000)

    async def scenario() -> None:
        with HostileBroker(("orders",)).serving() as broker:
            broker.answers[PULL] = answer
            async with running(broker, handle):
                watching = asyncio.get_running_loop().create_task(pace.watch())
                await until(lambda: len(handled) > 2_000)
                watching.cancel()

    with capture_logs() as lines:
        asyncio.run(scenario())
    assert {1} == set(handled.values())
    assert [*range(2_000)] == sorted(handled)[:2_000]
    assert pace.worst < 0.25
    assert 1 == len([line for line in lines if line["event"] == "pull result cut"])


def test_two_thousand_questions_for_stacks_hold_up_nobody_and_are_all_answered() -> None:
    asked_for = frames.request
    pace = Pace()
    numbers = count(1)

    @consumer(topic="orders", group="billing")
    async def handle(_: Message) -> None:
        return

    async def scenario() -> tuple[HostileBroker, float]:
        with HostileBroker(("orders",)).serving() as broker:
            async with running(broker, handle):
                await until(lambda: broker.asked[PULL] and broker.requesting)
                began = time.monotonic()
                watching = asyncio.get_running_loop().create_task(pace.watch())
                await asyncio.sleep(0.05)
                fields = {"consumerGroup": "billing", "clientId": "x", "jstackEnable": "true"}
                storm = b"".join(asked_for(RUNNING_INFO, fields, number=next(numbers)) for _ in range(2_000))
                await asyncio.to_thread(broker.ask, storm)
                await until(lambda: len(broker.answered) == 2_000)
                watching.cancel()
                return broker, time.monotonic() - began

    broker, seconds = asyncio.run(scenario())
    codes = Counter(each.code for each in broker.answered)
    assert 1 <= codes[0] <= 70 * max(1.0, seconds)
    assert 2_000 == codes[0] + codes[SYSTEM_BUSY]
    assert pace.worst < 0.5


@pytest.mark.parametrize("code", [RESET, STATUS, CHANGED])
def test_storms_of_other_questions_hold_up_nobody(code: int) -> None:
    handled: Counter[int] = Counter()
    pace = Pace()

    @consumer(topic="orders", group="billing")
    async def handle(message: Message) -> None:
        handled[message.queue_offset] += 1

    def answer(asked: Received) -> bytes:
        first = offset_of(asked)
        return pulled(asked, 0, first + 1, record(first), end=100_000) if asked.fields["topic"] == "orders" else b""

    async def scenario() -> float:
        began = time.monotonic()
        with HostileBroker(("orders",)).serving() as broker:
            broker.answers[PULL] = answer
            async with running(broker, handle):
                await until(lambda: len(handled) > 10 and broker.requesting)
                watching = asyncio.get_running_loop().create_task(pace.watch())
                fields = {
                    "consumerGroup": "billing", "group": "billing", "topic": "orders", "timestamp": "-1",
                    "isForce": "true",
                }  # fmt: skip
                body = b'{"offsetTable":[{"topic":"orders","brokerName":"evil","queueId":0,"offset":7}]}'
                asks = (
                    frames.request(code, fields, body if code == RESET else b"", number=number, one_way=code == CHANGED)
                    for number in range(1, 3_001)
                )
                await asyncio.to_thread(broker.ask, b"".join(asks))
                if code != CHANGED:
                    await until(lambda: len(broker.answered) == 3_000)
                before = len(handled)
                await until(lambda: handled[7] > 1 or len(handled) > before + 10)
                watching.cancel()
                return broker.asked[38] / max(1.0, time.monotonic() - began)

    members_asked_a_second = asyncio.run(scenario())
    assert pace.worst < 0.5
    assert members_asked_a_second < 20


REFUSALS = {"heartbeats": 34, "member lists": 38, "stored offsets": 14, "locks": 41, "pulls": 11}


@pytest.mark.parametrize("name", list(REFUSALS))
def test_refusals_that_come_at_once_are_not_asked_for_at_once(name: str) -> None:
    """Whatever is refused: its asker stands back, for longer and longer or by a second."""
    code = REFUSALS[name]

    @consumer(topic="orders", group="billing", orderly=name == "locks")
    async def handle(_: Message) -> None:
        return

    async def scenario() -> tuple[float, Counter[int]]:
        began = time.monotonic()
        with HostileBroker(("orders",)).serving() as broker:
            broker.answers[code] = lambda asked: frames.answer(asked.number, 24 if code == PULL else 1, remark="no")
            async with running(broker, handle):
                await until(lambda: broker.asked[code], "a first question")
                await asyncio.sleep(4)
                return time.monotonic() - began, Counter(broker.asked)

    with capture_logs() as lines:
        seconds, asked = asyncio.run(scenario())
    assert asked[code] <= 6 * seconds
    assert asked.total() <= 20 * seconds
    assert len([line for line in lines if line["log_level"] != "debug"]) <= 7.5 * seconds


def test_routes_whose_addresses_change_are_not_asked_for_all_the_time() -> None:
    """Each answer of the name server leads elsewhere, where nobody is."""
    numbers = count(2)

    @consumer(topic="orders", group="billing")
    async def handle(_: Message) -> None:
        return

    async def scenario() -> float:
        began = time.monotonic()
        with HostileBroker(("orders",)).serving() as broker:
            broker.leads_to = lambda: f"127.0.0.1:{next(numbers)}"
            async with running(broker, handle):
                await until(lambda: broker.asked[105], "a first question")
                await asyncio.sleep(4)
                return broker.asked[105] / (time.monotonic() - began)

    assert asyncio.run(scenario()) <= 10
