"""What may change while an application runs: how many handlers run at once, and whether any do.

That it takes no more than a second is asserted in virtual time: `scenarios/test_resizing.py`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from framework import App, Message, consumer
from framework.errors import ConfigurationError
from tests.patience import PATIENCE_S, until
from tests.runtime.test_app import box, run, running, send


class Gauge:
    """Counts deliveries, and how many run at once; handlers stay inside for a moment, and until the gate is open."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.now = self.most = 0
        self.gate = threading.Event()
        self.gate.set()
        self._lock = threading.Lock()

    def _enter(self, message: Message) -> None:
        with self._lock:
            self.seen[message.body.decode()] += 1
            self.now += 1
            self.most = max(self.most, self.now)

    def _leave(self) -> None:
        with self._lock:
            self.now -= 1

    async def awaited(self, message: Message) -> None:
        self._enter(message)
        try:
            await asyncio.sleep(0.1)
            await until(self.gate.is_set)
        finally:
            self._leave()

    def called(self, message: Message) -> None:
        self._enter(message)
        time.sleep(0.1)
        assert self.gate.wait(PATIENCE_S)
        self._leave()


def handler_of(kind: str, gauge: Gauge) -> Any:
    if kind == "thread":

        @consumer(topic="orders", group="billing")
        def bill(message: Message) -> None:
            gauge.called(message)

        return bill

    @consumer(topic="orders", group="billing", orderly=kind == "orderly")
    async def bill_async(message: Message) -> None:
        await gauge.awaited(message)

    return bill_async


@asynccontextmanager
async def consuming(kind: str, gauge: Gauge, count: int, **settings: Any) -> AsyncIterator[App]:
    async with box() as broker:
        await send(broker, "orders", *map(str, range(count)))
        async with running(broker, handler_of(kind, gauge), **settings) as app:
            yield app


@pytest.mark.parametrize("kind", ["async", "thread"])
def test_four_become_twenty_and_then_two_and_each_message_runs_once(kind: str) -> None:
    async def scenario() -> None:
        gauge = Gauge()
        gauge.gate.clear()
        async with consuming(kind, gauge, 300, concurrency=4) as app:
            await until(lambda: gauge.now == 4)
            app.resize("billing", 20)
            await until(lambda: gauge.now == 20)
            app.resize("billing", 2)
            gauge.gate.set()
            await until(lambda: gauge.now <= 2)
            gauge.most = 0
            await until(lambda: gauge.most)
            await asyncio.sleep(0.3)
            assert gauge.most <= 2
            app.resize("billing", 50)
            await until(lambda: app.counts.handled == 300)
        assert {str(number): 1 for number in range(300)} == gauge.seen

    run(scenario)


def test_an_orderly_group_works_at_as_many_queues_as_it_is_told() -> None:
    async def scenario() -> None:
        gauge = Gauge()
        gauge.gate.clear()
        async with consuming("orderly", gauge, 80, concurrency=1) as app:
            await until(lambda: gauge.now == 1)
            queues = sum(queue.place.topic == "orders" for queue in app.snapshot().groups[0].queues)
            app.resize("billing", 20)
            await until(lambda: gauge.now == queues > 2)
            app.resize("billing", 2)
            gauge.gate.set()
            await until(lambda: gauge.now <= 2)
            gauge.most = 0
            await until(lambda: gauge.most)
            await asyncio.sleep(0.3)
            assert gauge.most <= 2
            app.resize("billing", 20)
            await until(lambda: app.counts.handled == 80)
        assert {str(number): 1 for number in range(80)} == gauge.seen

    run(scenario)


@pytest.mark.parametrize("kind", ["async", "thread", "orderly"])
def test_a_paused_group_starts_nothing_keeps_its_queues_and_goes_on_where_it_stopped(kind: str) -> None:
    async def scenario() -> None:
        gauge = Gauge()
        async with consuming(kind, gauge, 60, concurrency=4) as app:
            await until(lambda: sum(gauge.seen.values()) >= 8)
            app.pause("billing")
            await until(lambda: not gauge.now)
            begun = dict(gauge.seen)
            await asyncio.sleep(0.3)
            queues = app.snapshot().groups[0].queues
            assert begun == gauge.seen
            assert len(begun) < 60
            assert {"paused"} == {queue.reason for queue in queues if queue.place.topic == "orders"}
            app.resume("billing")
            await until(lambda: app.counts.handled == 60)
        assert {str(number): 1 for number in range(60)} == gauge.seen

    run(scenario)


def test_what_is_sent_to_a_paused_group_waits_at_the_broker_and_comes_once_it_goes_on() -> None:
    async def scenario() -> None:
        gauge = Gauge()
        async with box() as broker:
            await send(broker, "orders", "first")
            async with running(broker, handler_of("async", gauge)) as app:
                await until(lambda: app.counts.handled == 1)
                app.pause("billing")  # its long polls are under way, and are given up
                await send(broker, "orders", *map(str, range(20)))
                await asyncio.sleep(0.3)
                assert {"first": 1} == gauge.seen
                app.resume("billing")
                await until(lambda: app.counts.handled == 21)

    run(scenario)


@pytest.mark.parametrize("kind", ["async", "thread", "orderly"])
def test_a_group_may_start_paused_and_is_drained_without_delay(kind: str) -> None:
    async def scenario() -> None:
        gauge = Gauge()
        async with consuming(kind, gauge, 10, paused=True) as app:
            await until(lambda: app.is_ready)
            await asyncio.sleep(0.2)
            assert not gauge.seen
        assert not gauge.seen
        assert not app.counts.abandoned

    run(scenario)


def test_a_topics_bound_holds_its_queues_together() -> None:
    async def scenario() -> None:
        gauge = Gauge()
        gauge.gate.clear()
        async with consuming("async", gauge, 400, concurrency=1, topic_count=40, pull_batch=1) as app:

            def held() -> list[tuple[int, str | None]]:
                queues = [queue for queue in app.snapshot().groups[0].queues if queue.place.topic == "orders"]
                return [(queue.messages, queue.reason) for queue in queues]

            await until(lambda: gauge.now)
            share = 40 // len(held())
            # The bound goes on, one more holds; between a message's end and the pull for it a queue has one less.
            await until(lambda: {(share + 1, "count")} == set(held()))
            gauge.gate.set()
            for _ in range(60):
                await asyncio.sleep(0.005)
                assert max(held())[0] <= share + 1
            app.resize("billing", 400)
            await until(lambda: app.counts.handled == 400)

    run(scenario)


def test_a_wrong_name_or_number_is_refused_with_the_way_out() -> None:
    async def scenario() -> None:
        async with consuming("async", Gauge(), 1) as app:
            await until(lambda: app.is_ready)
            with pytest.raises(ConfigurationError, match="no group 'biling' runs here; did you mean 'billing'"):
                app.pause("biling")
            with pytest.raises(ConfigurationError, match=r"resize\('billing', 0\): write a number from 1 to 1024"):
                app.resize("billing", 0)

    run(scenario)
