"""`once` on a real cluster: a repeat is dropped, a retry is not, and the next process knows what was handled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from framework import App, Message, Producer, RetryLater, consumer
from framework.hooks.host import PluginHost
from framework.settings.schema import AppSettings
from tests.interop.cluster import Addresses
from tests.patience import until

pytestmark = pytest.mark.interop


def test_repeats_are_dropped_also_by_the_next_process_and_retries_are_not(
    cluster: Addresses, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic(queues=1)
    group = f"once-of-{topic}"
    handled: list[tuple[str, int]] = []

    @consumer(topic, group, once="30m", key=lambda message: message.keys[0])
    async def book(body: str, message: Message) -> RetryLater | None:
        if message.attempt == 1 and body == "fails":
            return RetryLater("1s")
        handled.append((body, message.attempt))
        return None

    settings = AppSettings.model_validate(
        {
            "cluster": {"name_servers": [cluster.name_server]},
            "consumers": {group: {"start": "first", "once_store": "sqlite"}},
            "once": {"folder": str(tmp_path)},
        }
    )

    async def life(producer: Producer, bodies: list[tuple[str, str]], ends: int) -> App:
        """A process from its start to its drain, with so many messages settled by it."""
        app = App(settings, [book], plugins=PluginHost(discover=lambda: ()))
        running = asyncio.get_running_loop().create_task(app.run())
        for body, key in bodies:
            await producer.send(topic, body, keys=key)
        await until(lambda: app.counts.handled + app.counts.dropped == ends)
        await app.stop()
        await running
        return app

    async def scenario() -> None:
        async with Producer(name_servers=[cluster.name_server]) as producer:
            first = await life(producer, [("tea", "1"), ("tea", "1"), ("fails", "2")], 3)
            assert (2, 1, 1) == (first.counts.handled, first.counts.dropped, first.counts.retried)
            second = await life(producer, [("tea", "1"), ("fails", "2"), ("new", "3")], 3)
            assert (1, 2, 0) == (second.counts.handled, second.counts.dropped, second.counts.retried)

    asyncio.run(scenario())
    assert [("tea", 1), ("fails", 2), ("new", 1)] == handled
