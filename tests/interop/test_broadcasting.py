"""Broadcasting groups against a real cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from framework import App, Message, Producer, consumer
from framework.hooks.host import PluginHost
from framework.settings.schema import AppSettings
from tests.interop.cluster import Addresses

pytestmark = pytest.mark.interop

COUNT = 20


def test_each_process_is_given_every_message_and_goes_on_at_its_own_offsets(
    cluster: Addresses, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic(queues=4)

    def make(name: str) -> tuple[App, list[bytes]]:
        seen: list[bytes] = []

        @consumer(topic=topic, group=f"caches-of-{topic}", broadcasting=True)
        async def note(message: Message) -> None:
            seen.append(message.body)

        settings = AppSettings.model_validate(
            {
                "cluster": {"name_servers": [cluster.name_server]},
                "consumers": {note.spec.group: {"start": "first"}},
                "broadcasting": {"folder": str(tmp_path), "name": name},
            }
        )
        return App(settings, [note], plugins=PluginHost(discover=lambda: ())), seen

    async def until(condition: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not condition():  # noqa: ASYNC110 - what is waited for is plain state
                await asyncio.sleep(0.05)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with Producer(name_servers=[cluster.name_server]) as producer:
            for number in range(COUNT):
                await producer.send(topic, b"%d" % number)
            (one, first), (two, second) = make("one"), make("two")
            running, other = loop.create_task(one.run()), loop.create_task(two.run())
            await until(lambda: len(set(first)) == len(set(second)) == COUNT)
            await one.stop()
            await running
            await producer.send(topic, b"new")
            again, rest = make("one")
            running = loop.create_task(again.run())
            await until(lambda: rest and len(second) == COUNT + 1 and again.idle_ms() > 200)
            assert [b"new"] == rest, "it begins at its own file's offsets"
            await again.stop()
            await two.stop()
            await running
            await other

    asyncio.run(scenario())
