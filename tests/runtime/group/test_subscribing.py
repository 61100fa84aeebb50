"""Subscriptions that change while an application runs: another topic, other tags, one topic less."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any

import pytest

from framework import App, Message, Producer, consumer, resource
from framework.broker.server import Broker
from framework.errors import ConfigurationError
from tests.patience import until
from tests.runtime.test_app import box, run, running, send

KINDS = ["async", "plain", "batch", "orderly", "broadcasting"]


def handler_of(kind: str, topic: str, seen: list[str], *, tags: str = "*", takes_s: float = 0.0) -> Any:
    if kind == "plain":

        @consumer(topic=topic, group="billing", tags=tags)
        def plain(message: Message) -> None:
            seen.append(message.body.decode())

        return plain
    if kind == "batch":

        @consumer(topic=topic, group="billing", tags=tags, batch=4, linger="5ms")
        async def batch(messages: list[Message]) -> None:
            seen.extend(message.body.decode() for message in messages)

        return batch

    @consumer(topic=topic, group="billing", tags=tags, orderly=kind == "orderly", broadcasting=kind == "broadcasting")
    async def one(message: Message) -> None:
        await asyncio.sleep(takes_s)
        seen.append(message.body.decode())

    return one


def wanted(broker: Broker) -> dict[str, str]:
    """Topic -> expression, as the broker knows the group."""
    (node,) = broker.nodes
    found = node.members.find("billing")
    assert found is not None
    return {topic: each.expression for topic, each in found.wanted.items() if not topic.startswith("%")}


def topics_of(app: App) -> set[str]:
    (group,) = app.snapshot().groups
    return {queue.place.topic for queue in group.queues if not queue.place.topic.startswith("%")}


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # broadcasting groups keep their offsets below it


@pytest.mark.parametrize("kind", KINDS)
def test_a_topic_is_consumed_soon_after_it_was_subscribed(kind: str) -> None:
    async def scenario() -> None:
        seen: list[str] = []
        async with box() as broker:
            await send(broker, "orders", "o1")
            await send(broker, "stock", "s1")
            async with running(broker, handler_of(kind, "orders", seen)) as app:
                await until(lambda: seen == ["o1"])
                app.subscribe(handler_of("async" if kind == "plain" else kind, "stock", seen))
                await until(lambda: len(seen) == 2)
                assert {"orders": "*", "stock": "*"} == wanted(broker)
                await send(broker, "orders", "o2")
                await until(lambda: len(seen) == 3)
            assert ["o1", "o2", "s1"] == sorted(seen)

    run(scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_a_topic_that_is_unsubscribed_leaves_with_its_offsets_confirmed(kind: str) -> None:
    async def scenario() -> None:
        seen: list[str] = []
        async with box() as broker:
            await send(broker, "orders", *map(str, range(20)))
            await send(broker, "stock", "s1")
            handlers = [handler_of(kind, topic, seen) for topic in ("orders", "stock")]
            async with running(broker, *handlers) as app:
                await until(lambda: len(seen) == 21)
                app.unsubscribe("billing", "orders")
                await until(lambda: topics_of(app) == {"stock"} and list(wanted(broker)) == ["stock"])
                await until(lambda: app.is_ready)
                (node,) = broker.nodes
                if kind != "broadcasting":
                    ends = [node.offsets.get("billing", "orders", number) for number in range(4)]
                    assert 20 == sum(end or 0 for end in ends)
                await send(broker, "orders", "late")
                await send(broker, "stock", "s2")
                await until(lambda: "s2" in seen)
                app.subscribe(handlers[0])
                await until(lambda: "late" in seen)
            assert 23 == len(seen) == len(set(seen)), "nothing twice, and nothing of what came meanwhile is skipped"

    run(scenario)


@pytest.mark.parametrize("kind", ["async", "orderly"])
def test_other_tags_hold_from_the_next_message_on(kind: str) -> None:
    async def scenario() -> None:
        seen: list[str] = []
        async with box() as broker, Producer(name_servers=[broker.address]) as producer:
            await producer.send("orders", b"r1", tags="red")
            async with running(broker, handler_of(kind, "orders", seen, tags="red", takes_s=0.1)) as app:
                await until(lambda: seen == ["r1"])
                app.subscribe(handler_of(kind, "orders", seen, tags="blue"))
                await until(lambda: wanted(broker) == {"orders": "blue"} and topics_of(app) == {"orders"})
                for tag in ("red", "blue", "red", "blue"):
                    await producer.send("orders", tag.encode(), tags=tag)
                await until(lambda: seen.count("blue") == 2 and app.idle_ms() > 100)
            assert ["r1", "blue", "blue"] == seen

    run(scenario)


def test_what_was_handled_before_it_was_unsubscribed_is_still_retried() -> None:
    async def scenario() -> None:
        attempts: list[int] = []
        seen: list[str] = []

        @consumer(topic="orders", group="billing")
        async def bill(message: Message) -> None:
            attempts.append(message.attempt)
            if message.attempt == 1:
                app.unsubscribe("billing", "orders")
                raise ValueError("not now")

        async with box() as broker:
            await send(broker, "orders", "o1")
            async with running(broker, bill, handler_of("plain", "stock", seen)) as app:
                await until(lambda: attempts == [1, 2])

    run(scenario)


def test_what_cannot_be_is_refused_and_changes_nothing() -> None:
    async def scenario() -> None:
        seen: list[str] = []
        async with box() as broker:
            await send(broker, "orders", "o1")
            async with running(broker, handler_of("async", "orders", seen)) as app:
                await until(lambda: seen)
                with pytest.raises(ConfigurationError, match="a group needs a topic; pause the group instead"):
                    app.unsubscribe("billing", "orders")
                with pytest.raises(ConfigurationError, match="no such topic; it has orders"):
                    app.unsubscribe("billing", "stock")
                with pytest.raises(ConfigurationError, match="no group 'bill'"):
                    app.unsubscribe("bill", "orders")
                with pytest.raises(ConfigurationError, match="orderly"):
                    app.subscribe(handler_of("orderly", "stock", seen))
                assert {"orders": "*"} == wanted(broker)
                assert 1 == len(app.consumers)

    run(scenario)


def test_a_late_handler_cannot_bring_a_resource_of_the_application() -> None:
    @resource
    def pool() -> Iterator[str]:
        yield "pool"

    @consumer(topic="stock", group="billing")
    async def move(message: Message, pool: Annotated[str, pool]) -> None:
        return

    async def scenario() -> None:
        seen: list[str] = []
        async with box() as broker:
            await send(broker, "orders", "o1")
            async with running(broker, handler_of("async", "orders", seen)) as app:
                await until(lambda: seen)
                with pytest.raises(ConfigurationError, match="resource 'pool' is opened at startup only"):
                    app.subscribe(move)

    run(scenario)
