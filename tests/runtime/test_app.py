"""A whole application against the broker in the box, over loopback sockets: the thinnest slice, end to end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

import pytest

from framework import App, DeadLetter, Delivery, Message, Producer, RetryLater, consumer
from framework.broker.server import Broker
from framework.broker.settings import BrokerSettings
from framework.errors import ConfigurationError
from framework.hooks.host import PluginHost
from framework.net.real_world import real_world
from framework.settings.schema import AppSettings
from tests.patience import PATIENCE_S, soon, until

T = TypeVar("T")
# All levels are short, so that a retry comes back within the test.
QUICK_LEVELS = (10,) * 18
SCENARIO_S = 240.0
"""Several waits, each of which has a bound of its own."""


class Addressed(Protocol):
    """A broker of any kind."""

    @property
    def address(self) -> str: ...


@asynccontextmanager
async def box() -> AsyncIterator[Broker]:
    broker = Broker(real_world(), data=None, settings=BrokerSettings(delays_ms=QUICK_LEVELS))
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


@asynccontextmanager
async def running(broker: Addressed, *handlers: Any, drain: str = "1m", **group_settings: Any) -> AsyncIterator[App]:
    """The application while it runs; it is drained at the end."""
    groups = {handler.spec.group: {"start": "first", **group_settings} for handler in handlers}
    settings = AppSettings.model_validate({"cluster": {"name_servers": [broker.address]}, "consumers": groups})
    app = App(settings, handlers, plugins=PluginHost())
    task = asyncio.get_running_loop().create_task(app.run())
    try:
        yield app
    finally:
        await app.stop(drain=drain)
        await task


async def send(broker: Broker, topic: str, *bodies: str) -> None:
    async with Producer(name_servers=[broker.address], timeout=PATIENCE_S) as producer:
        for body in bodies:
            await producer.send(topic, body.encode(), keys=[f"key-{body}"])


def run(scenario: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return asyncio.run(soon(scenario(), "the scenario's end", SCENARIO_S))


def test_an_async_handler_handles_what_was_sent_and_offsets_are_confirmed() -> None:
    async def scenario() -> None:
        seen: list[bytes] = []

        @consumer(topic="orders", group="billing")
        async def bill(message: Message) -> None:
            seen.append(message.body)

        async with box() as broker:
            await send(broker, "orders", *map(str, range(100)))
            async with running(broker, bill) as app:
                await until(lambda: len(seen) == 100)
            assert 100 == app.counts.handled
            seen.clear()
            async with running(broker, bill) as app:
                await until(lambda: app.idle_ms() > 50)
            assert [] == seen, "what was confirmed at the stop is not delivered again"

    run(scenario)


def test_a_plain_function_runs_on_threads() -> None:
    async def scenario() -> None:
        seen: list[str] = []

        @consumer(topic="stock", group="inventory")
        def move(message: Message) -> None:
            seen.append(message.body.decode())

        async with box() as broker:
            await send(broker, "stock", *map(str, range(50)))
            async with running(broker, move):
                await until(lambda: len(seen) == 50)
        assert sorted(map(str, range(50))) == sorted(seen)

    run(scenario)


def test_a_failing_message_comes_back_until_it_is_handled() -> None:
    async def scenario() -> None:
        attempts: list[tuple[int, str, str]] = []

        @consumer(topic="orders", group="billing")
        async def bill(delivery: Delivery) -> RetryLater | None:
            attempts.append((delivery.attempt, delivery.message.topic, delivery.message.message_id))
            if delivery.attempt == 1:
                raise ValueError("not yet")
            return RetryLater("1ms") if delivery.attempt == 2 else None

        async with box() as broker:
            await send(broker, "orders", "one")
            async with running(broker, bill) as app:
                await until(lambda: len(attempts) == 3)
                await until(lambda: app.counts.handled == 1)
            assert (1, 2, 0) == (app.counts.handled, app.counts.retried, app.counts.dead_lettered)
        assert [1, 2, 3] == [attempt for attempt, _, _ in attempts]
        assert 1 == len({(topic, identity) for _, topic, identity in attempts}), "the message keeps its name and its id"

    run(scenario)


def test_a_poison_message_is_dead_lettered_after_its_retries() -> None:
    async def scenario() -> None:
        attempts: list[int] = []
        buried: list[bytes] = []

        @consumer(topic="orders", group="billing")
        async def bill(delivery: Delivery) -> None:
            attempts.append(delivery.attempt)
            raise ValueError("never")

        @consumer(topic="%DLQ%billing", group="undertaker")
        async def bury(message: Message) -> None:
            buried.append(message.body)

        async with box() as broker:
            await send(broker, "orders", "poison")
            async with running(broker, bill, bury, max_retries=2):
                await until(lambda: buried)
        assert [1, 2, 3] == attempts, "two retries mean three deliveries"
        assert [b"poison"] == buried

    run(scenario)


def test_a_dead_letter_is_one_at_once() -> None:
    async def scenario() -> None:
        @consumer(topic="orders", group="billing")
        async def bill(message: Message) -> DeadLetter:
            return DeadLetter("unwanted")

        async with box() as broker:
            await send(broker, "orders", "one")
            async with running(broker, bill) as app:
                await until(lambda: app.counts.dead_lettered == 1)
            assert (0, 0) == (app.counts.handled, app.counts.retried)

    run(scenario)


def test_two_members_share_the_queues_and_the_survivor_takes_all() -> None:
    async def scenario() -> None:
        @consumer(topic="orders", group="billing")
        async def bill(message: Message) -> None: ...

        def owned(app: App) -> set[str]:
            return {
                queue.queue
                for group in app.snapshot().groups
                for queue in group.queues
                if not queue.queue.startswith("%")
            }

        async with box() as broker:
            await send(broker, "orders", "one")
            async with running(broker, bill) as first:
                await until(lambda: len(owned(first)) == 4)
                async with running(broker, bill) as second:
                    await until(lambda: len(owned(first)) == len(owned(second)) == 2)
                    assert not owned(first) & owned(second)
                await until(lambda: len(owned(first)) == 4)

    run(scenario)


def test_a_topic_that_is_created_later_is_consumed_from_its_first_message() -> None:
    """Under the policy `last`, what was sent between the creation and our noticing would else be lost to the group."""

    async def scenario() -> None:
        seen: list[bytes] = []

        @consumer(topic="news", group="readers")
        async def read(message: Message) -> None:
            seen.append(message.body)

        async with box() as broker, running(broker, read, start="last") as app:
            await until(lambda: app.is_ready)
            await send(broker, "news", "first")
            await until(lambda: seen)
        assert [b"first"] == seen

    run(scenario)


def test_events_tell_every_settled_delivery() -> None:
    async def scenario() -> None:
        events: list[dict[str, Any]] = []

        @consumer(topic="orders", group="billing")
        async def bill(delivery: Delivery) -> None:
            if delivery.attempt == 1:
                raise ValueError("not yet")

        async with box() as broker:
            await send(broker, "orders", "one")
            settings = AppSettings.model_validate(
                {"cluster": {"name_servers": [broker.address]}, "consumers": {"billing": {"start": "first"}}}
            )
            app = App(settings, [bill], plugins=PluginHost())
            app.on_event = events.append
            task = asyncio.get_running_loop().create_task(app.run())
            await until(lambda: len(events) == 2)
            await app.stop()
            await task
        assert ["retry", "handled"] == [event["event"] for event in events]
        assert ["RetryLater", "Ack"] == [event["outcome"] for event in events]
        assert [1, 2] == [event["attempt"] for event in events]
        assert "orders" == events[0]["topic"]

    run(scenario)


def test_stopping_an_application_that_could_not_start_returns_at_once() -> None:
    async def scenario() -> None:
        @consumer(topic="orders", group="billing")
        async def bill(message: Message) -> None: ...

        settings = AppSettings.model_validate({"consumers": {"billing": {"allocation": "no_such_strategy"}}})
        app = App(settings, [bill], plugins=PluginHost())
        task = asyncio.get_running_loop().create_task(app.run())
        await asyncio.sleep(0)
        await app.stop()

        with pytest.raises(ConfigurationError, match="no_such_strategy"):
            await task

    run(scenario)
