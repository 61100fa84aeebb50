"""mqadmin reads our traces: who sent a message, and who consumed it."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from framework import App, Message, Producer, consumer
from framework.cli import main
from framework.cli.exit_codes import ExitCode
from framework.hooks.host import PluginHost
from framework.settings.schema import AppSettings
from tests.interop.cluster import Addresses
from tests.interop.live import NewTopic
from tests.interop.mqadmin import Admin
from tests.patience import wait_until

pytestmark = pytest.mark.interop


def test_a_trace_shows_who_sent_and_who_consumed(
    admin: Admin, cluster: Addresses, new_topic: NewTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    """Our records, stored by a real broker, and read by RocketMQ's own decoder; then by our command."""
    topic, traces, seen = new_topic(), new_topic(queues=1), asyncio.Event()
    group = f"readers-of-{topic}"

    @consumer(topic=topic, group=group)
    async def read(message: Message) -> None:
        seen.set()

    async def story() -> str:
        names = [cluster.name_server]
        group_settings = {"start": "first", "trace": True, "trace_topic": traces}
        app = App(
            AppSettings.model_validate({"cluster": {"name_servers": names}, "consumers": {group: group_settings}}),
            [read],
            plugins=PluginHost(discover=lambda: ()),
        )
        async with Producer(name_servers=names, group="makers", trace=True, trace_topic=traces) as producer:
            sent = await producer.send(topic, b"paid", keys="k1")
        running = asyncio.get_running_loop().create_task(app.run())
        await seen.wait()
        await app.stop()
        await running
        return sent.message_id

    message_id = asyncio.run(story())

    def shown() -> str:
        return admin.run("queryMsgTraceById", "-i", message_id, "-t", traces)

    wait_until(lambda: "Sub " in shown(), "the broker to have indexed the traces")
    table = shown()
    assert re.search(r"^Pub +makers +\S+ +[\d-]+ [\d:]+ +\d+ms +success", table, re.MULTILINE), table
    assert re.search(rf"^Sub +{group} +\S+ +[\d-]+ [\d:]+ +\d+ms +success", table, re.MULTILINE), table
    assert len(admin.run("queryMsgByKey", "-t", traces, "-k", "k1").splitlines()) > 1, "found by the sender's keys, too"

    words = ("--topic", topic, "--trace-topic", traces, "--json", "--name-server", cluster.name_server)
    capsys.readouterr()
    assert ExitCode.CLEAN == main.run(["trace", message_id, *words])
    events = {row["what"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert {"sent", "stored", "attempt 1", "group"} == set(events)
    assert (group, "success") == (events["attempt 1"]["who"], events["attempt 1"]["result"])
    assert events["sent"]["who"].startswith("makers ")
    assert events["group"]["result"].startswith("handled by 127.0.0.1, attempt 1, in ")
