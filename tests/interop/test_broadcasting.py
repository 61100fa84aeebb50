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
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.patience import until

pytestmark = pytest.mark.interop

COUNT = 20


def member(name_server: str, topic: str, folder: Path, name: str, **more: str) -> tuple[App, list[bytes]]:
    """An application that is given everything, and what it was given."""
    seen: list[bytes] = []

    @consumer(topic=topic, group=f"caches-of-{topic}", broadcasting=True)
    async def note(message: Message) -> None:
        seen.append(message.body)

    settings = AppSettings.model_validate(
        {
            "cluster": {"name_servers": [name_server]},
            "consumers": {note.spec.group: {"start": "first"}},
            "broadcasting": {"folder": str(folder), "name": name, **more},
        }
    )
    return App(settings, [note], plugins=PluginHost(discover=lambda: ())), seen


def test_each_process_is_given_every_message_and_goes_on_at_its_own_offsets(
    cluster: Addresses, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic(queues=4)

    def make(name: str) -> tuple[App, list[bytes]]:
        return member(cluster.name_server, topic, tmp_path, name)

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


def test_java_and_we_are_both_given_everything_and_its_offsets_are_taken_over(
    cluster: Addresses, java: JavaPeer, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Side by side in one group; then Java's member leaves, and one of ours begins at the file that it wrote."""
    topic = new_topic(queues=4)
    names = [[b"%s %d" % (when, number) for number in range(8)] for when in (b"before", b"beside", b"after")]
    before, beside, after = names

    def send(bodies: list[bytes]) -> None:
        java.send(cluster.name_server, topic, [Outgoing(body=body) for body in bodies])

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        await asyncio.to_thread(send, before)
        ours, seen = member(cluster.name_server, topic, tmp_path, "beside")
        running = loop.create_task(ours.run())
        theirs = await asyncio.to_thread(java.consume, cluster.name_server, f"caches-of-{topic}", topic, broadcast=True)
        in_java = await asyncio.to_thread(theirs.received, len(before))
        await until(lambda: len(seen) == len(before))
        await asyncio.to_thread(send, beside)
        in_java += await asyncio.to_thread(theirs.received, len(beside))
        await until(lambda: len(seen) == len(before + beside))
        client = (await asyncio.to_thread(theirs.share, topic)).client_id
        await asyncio.to_thread(theirs.leave)
        await asyncio.to_thread(send, after)
        folder = java.home / ".rocketmq_offsets" / client
        heir, rest = member(cluster.name_server, topic, tmp_path, "heir", java_folder=str(folder))
        inheriting = loop.create_task(heir.run())
        await until(lambda: len(rest) >= len(after) and len(seen) == len(before + beside + after))
        await until(lambda: heir.idle_ms() > 200)
        for app, task in ((ours, running), (heir, inheriting)):
            await app.stop()
            await task
        assert sorted(before + beside) == sorted(each.body for each in in_java)
        assert sorted(before + beside + after) == sorted(seen)
        assert sorted(after) == sorted(rest), "it begins where Java had got to"

    asyncio.run(scenario())
