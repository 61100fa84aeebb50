"""A namespace, with the real runtime and the broker in the box: wrapped on the wire, bare in the user's hands."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from framework import App, DeadLetter, Delivery, Message, Producer, RetryLater, consumer
from framework.errors import ConfigurationError
from framework.hooks.host import PluginHost
from framework.model.queue import MessageQueue
from framework.runtime.reports import Event
from framework.settings.schema import AppSettings
from tests.patience import until
from tests.runtime.test_app import box, run


def settings_for(address: str, **group: Any) -> AppSettings:
    cluster = {"name_servers": [address], "namespace": "ns"}
    return AppSettings.model_validate({"cluster": cluster, "consumers": {"billing": {"start": "first", **group}}})


@pytest.mark.parametrize("kind", ["async", "plain", "batch", "key"])
def test_handlers_see_their_own_names_and_the_broker_its(kind: str) -> None:
    async def scenario() -> None:
        seen: list[tuple[str, str, int]] = []

        def act(message: Message, group: str = "billing") -> object:
            seen.append((message.topic, group, message.attempt))
            if message.body == b"bad":
                return DeadLetter("no good") if message.attempt == 2 else RetryLater()
            return None

        @consumer(topic="orders", group="billing")
        async def one(message: Message, delivery: Delivery) -> object:
            return act(message, delivery.group)

        @consumer(topic="orders", group="billing")
        def plain(message: Message) -> object:
            return act(message)

        @consumer(topic="orders", group="billing", batch=4, linger="5ms")
        async def batch(messages: list[Message]) -> list[object]:
            return [act(message) for message in messages]

        topics_of_keys: set[str] = set()

        def key_of(message: Message) -> str:
            topics_of_keys.add(message.topic)
            return "k"

        @consumer(topic="orders", group="billing", orderly="key", key=key_of)
        async def key(message: Message) -> object:
            return act(message)

        handler: Any = {"async": one, "plain": plain, "batch": batch, "key": key}[kind]
        events: list[Event] = []
        async with box() as broker:
            app = App(settings_for(broker.address), [handler], plugins=PluginHost())
            app.on_event = events.append
            running = asyncio.get_running_loop().create_task(app.run())
            await until(lambda: app.cluster is not None)
            async with Producer(name_servers=[broker.address], namespace="ns") as producer:
                result = await producer.send("orders", b"good")
                chosen = await producer.send("orders", b"bad", queue=result.queue)
                assert ("orders", result.queue) == (result.queue.topic, chosen.queue)
            await Producer(cluster=app.cluster).send_batch([Message("orders", b"shared"), Message("orders", b"too")])
            await until(lambda: len(events) >= 5)
            (node,) = broker.nodes
            assert node.members.find("ns%billing") is not None
            app.pause("billing")
            app.resume("ns%billing")
            await app.stop()
            await running
            topics = set(node.rules.topics.keys())
        assert {"ns%orders", "%RETRY%ns%billing", "%DLQ%ns%billing"} <= topics
        assert not {"orders", "%RETRY%billing", "%DLQ%billing"} & topics
        assert {"orders"} == {topic for topic, _, _ in seen}
        assert {"billing"} == {group for _, group, _ in seen}
        assert [1, 1, 1, 1, 2] == sorted(attempt for _, _, attempt in seen)
        assert {("billing", "orders")} == {(event["group"], event["topic"]) for event in events}
        assert topics_of_keys == ({"orders"} if kind == "key" else set())

    run(scenario)


def test_names_that_are_too_long_with_their_namespace_are_refused_at_the_start() -> None:
    @consumer(topic="orders", group="b" * 118)
    async def bill(message: Message) -> None:
        return

    async def scenario() -> None:
        with pytest.raises(ConfigurationError, match="group 'ns%bbb"):
            await App(settings_for("127.0.0.1:1"), [bill], plugins=PluginHost()).run()

    run(scenario)


def test_a_queue_of_another_topic_is_still_refused() -> None:
    async def scenario() -> None:
        async with box() as broker, Producer(name_servers=[broker.address], namespace="ns") as producer:
            with pytest.raises(ConfigurationError, match="belongs to another topic"):
                await producer.send("orders", b"x", queue=MessageQueue("stock", "broker-a", 0))

    run(scenario)
