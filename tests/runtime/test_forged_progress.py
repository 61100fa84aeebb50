"""A stranger who may write to the topic of a group's progress costs the group no message, where it has a key."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from framework import App, Message, consumer
from framework.broker.server import Broker
from framework.broker.store.topics import Topic
from framework.hooks.host import PluginHost
from framework.model.queue import MessageQueue
from framework.net.real_world import real_world
from framework.settings.schema import AppSettings
from tests.client.stranger import says_all_is_done
from tests.patience import until
from tests.runtime.test_app import run, send

KEYS: dict[str, dict[str, Any]] = {
    "by the credentials": {"cluster": {"credentials": {"access_key": "billing", "secret_key": "secret"}}},
    "by a key of its own": {"progress": {"key": "secret"}},
}


@pytest.mark.parametrize("how", KEYS)
def test_a_forged_record_costs_no_message(how: str) -> None:
    """Of thirty messages the group has handled one when a stranger says that it has handled nearly all."""
    seen: list[int] = []

    @consumer("orders", "billing")
    async def bill(message: Message) -> None:
        seen.append(message.queue_offset)

    async def handles(broker: Broker, count: int) -> None:
        given = KEYS[how]
        settings = AppSettings.model_validate({
            **given,
            "cluster": {"name_servers": [broker.address], **given.get("cluster", {})},
            "consumers": {"billing": {"start": "first", "progress": "topic"}},
        })  # fmt: skip
        app = App(settings, [bill], plugins=PluginHost())
        task = asyncio.get_running_loop().create_task(app.run())
        try:
            await until(lambda: len(seen) == count)
        finally:
            await app.stop()
            await task

    async def scenario() -> None:
        broker = Broker(real_world())
        await broker.start()
        try:
            broker.nodes[0].rules.topics.put("orders", Topic(name="orders", read_queues=1, write_queues=1))
            await send(broker, "orders", "0")
            await handles(broker, 1)
            await send(broker, "orders", *map(str, range(1, 30)))
            queue = MessageQueue("orders", broker.nodes[0].name, 0)
            await says_all_is_done(broker.address, "billing", queue, 1, 30)
            await handles(broker, 30)
        finally:
            await broker.stop()

    with capture_logs() as lines:
        run(scenario)
    assert list(range(30)) == sorted(seen)
    (said,) = [line for line in lines if line["event"] == "progress discarded"]
    assert ("billing", "warning") == (said["group"], said["log_level"])
