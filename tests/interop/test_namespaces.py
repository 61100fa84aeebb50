"""One group of one namespace with a Java and a Python member, and producers of both kinds."""

from __future__ import annotations

import asyncio

import pytest

from framework import App, Message, Producer, consumer
from framework.hooks.host import PluginHost
from framework.model.snapshot import QueueSnapshot
from framework.settings.schema import AppSettings
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.places import Place
from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.interop

COUNT = 24


def test_java_and_python_share_a_group_of_a_namespace(place: Place, java: JavaPeer) -> None:
    topic = place.new_topic()
    group = f"readers-of-{topic}"
    seen: list[Message] = []

    @consumer(topic=topic, group=group)
    async def note(message: Message) -> None:
        seen.append(message)

    settings = AppSettings.model_validate({
        "cluster": {"name_servers": [place.name_server], "namespace": "tenant"},
        "consumers": {group: {"start": "first"}},
    })  # fmt: skip
    # The same names without the namespace are another topic's.
    java.send(place.name_server, topic, [Outgoing(body=b"stranger")])
    java.send(place.name_server, topic, [Outgoing(body=b"j0")], namespace="tenant")
    member = java.consume(place.name_server, group, topic, namespace="tenant")
    (first,) = member.received(1)

    async def scenario() -> list[bytes]:
        app = App(settings, [note], plugins=PluginHost(discover=lambda: ()))
        running = asyncio.get_running_loop().create_task(app.run())
        await until(lambda: app.is_ready and any(queue.place.topic == f"tenant%{topic}" for queue in queues(app)))
        from_java = [Outgoing(body=b"j%d" % number) for number in range(1, COUNT)]
        await asyncio.to_thread(java.send, place.name_server, topic, from_java, namespace="tenant")
        for number in range(COUNT):
            sent = await Producer(cluster=app.cluster).send(topic, b"p%d" % number)
            assert sent.queue.topic == topic
        theirs: list[bytes] = []
        async with asyncio.timeout(PATIENCE_S):
            # Java gives what it had not confirmed once more to whoever takes its queue: repeats count for nothing.
            while len({first.body, *theirs, *(message.body for message in seen)}) < 2 * COUNT:
                theirs += [each.body for each in await asyncio.to_thread(member.received, 100, timeout_s=0.3)]
        await app.stop()
        await running
        return theirs

    def queues(app: App) -> list[QueueSnapshot]:
        return [queue for each in app.snapshot().groups for queue in each.queues]

    theirs = asyncio.run(scenario())
    member.leave()
    wanted = {b"%s%d" % (who, number) for who in (b"j", b"p") for number in range(COUNT)}
    assert wanted == {first.body, *theirs, *(message.body for message in seen)}
    assert (topic, {topic}) == (first.topic, {message.topic for message in seen})
    assert theirs, "each member had queues"
    assert seen, "each member had queues"
