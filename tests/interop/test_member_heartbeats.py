"""Short heartbeats (version 2): a stock broker keeps the member, and hears of each change."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from framework import App, Message, Producer, consumer
from framework.client.brokers import Brokers
from framework.core import limits
from framework.declare import Consumer
from framework.hooks.host import PluginHost
from framework.settings.schema import AppSettings
from framework.wire.bodies.heartbeat import Heartbeat
from framework.wire.requests.group import HeartbeatAnswer
from tests.interop.cluster import Addresses
from tests.interop.live import NewTopic
from tests.interop.mqadmin import Admin
from tests.patience import until

pytestmark = pytest.mark.interop


def test_short_heartbeats_keep_a_member_and_a_change_takes_effect(
    admin: Admin, cluster: Addresses, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic()
    group = f"terse-{topic}"
    seen: list[bytes] = []
    beats: list[tuple[bool, bool]] = []
    """Whether each was short, and whether the broker said that something had changed."""
    ask = Brokers.heartbeat

    async def noted(self: Brokers, address: str, heartbeat: Heartbeat) -> HeartbeatAnswer:
        answer = await ask(self, address, heartbeat)
        if heartbeat.consumers:  # a producer's are never short
            beats.append((heartbeat.is_without_subscriptions, answer.subscription_changed))
        return answer

    monkeypatch.setattr(Brokers, "heartbeat", noted)
    monkeypatch.setattr(limits, "HEARTBEAT_MS", 200)

    def of_tag(tag: str) -> Consumer[..., Any]:
        @consumer(topic=topic, group=group, tags=tag)
        async def read(message: Message) -> None:
            seen.append(message.body)

        return read

    async def three_short_ones() -> None:
        beats.clear()
        await until(lambda: [True] * 3 == [is_short for is_short, _ in beats[-3:]])
        assert not any(is_changed for is_short, is_changed in beats[-3:] if is_short)

    async def shown() -> str:
        return await asyncio.to_thread(admin.run, "consumerConnection", "-g", group)

    async def story() -> None:
        names = [cluster.name_server]
        settings = {"cluster": {"name_servers": names, "heartbeat_v2": True}, "consumers": {group: {"start": "first"}}}
        app = App(AppSettings.model_validate(settings), [of_tag("a")], plugins=PluginHost(discover=lambda: ()))
        running = asyncio.get_running_loop().create_task(app.run())
        await until(lambda: app.is_ready)
        await three_short_ones()
        connections = await shown()
        assert app.member in connections
        assert re.search(rf"^{topic}\s+a$", connections, re.MULTILINE), connections
        async with Producer(name_servers=names) as producer:
            await producer.send(topic, b"for a", tags="a")
            await producer.send(topic, b"for b", tags="b")
            await until(lambda: seen == [b"for a"])
            app.subscribe(of_tag("b"))
            await three_short_ones()
            await producer.send(topic, b"again for a", tags="a")
            await producer.send(topic, b"again for b", tags="b")
            await until(lambda: b"again for b" in seen)
        connections = await shown()
        assert app.member in connections
        assert re.search(rf"^{topic}\s+b$", connections, re.MULTILINE), connections
        assert b"again for a" not in seen
        await app.stop()
        await running

    asyncio.run(story())
