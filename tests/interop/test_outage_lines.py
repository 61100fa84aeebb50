"""What three groups log of a real cluster that is not there yet, and of its only broker while that is killed.

How often that is said over minutes is asked in virtual time (`scenarios/test_outage_lines.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from framework import Message, consumer
from framework.services import heartbeat
from tests.interop import probe
from tests.interop.cluster import Cluster
from tests.interop.inside import application, owned, running
from tests.interop.processes import Nursery
from tests.patience import until, wait_until

pytestmark = pytest.mark.interop
TOPIC, QUEUES = "orders", 4
Line = MutableMapping[str, Any]


@consumer(TOPIC, "billing")
async def bill(message: Message) -> None: ...


@consumer(TOPIC, "audit", orderly=True)
async def audit(message: Message) -> None: ...


@consumer(TOPIC, "inventory")
async def move(message: Message) -> None: ...


def loud(lines: list[Line]) -> list[str]:
    return [str(line["event"]) for line in lines if line["log_level"] in {"warning", "error"}]


@pytest.mark.long
def test_the_cause_comes_first_and_then_again_and_again_until_the_broker_is_there(
    nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "SAY_AGAIN_MS", 1_000)
    cluster = Cluster(tmp_path, nursery)
    app = application(cluster.name_server, bill, audit, move)

    async def scenario() -> None:
        async with running(app):
            await until(lambda: loud(lines).count("heartbeat not accepted") >= 2)
            assert ["not connected", *["heartbeat not accepted"] * (len(loud(lines)) - 1)] == loud(lines)
            assert "starting" == app.snapshot().phase
            assert not {"app started", "connected", "topic not found yet"} & {line["event"] for line in lines}
            await asyncio.to_thread(cluster.start)
            await asyncio.to_thread(made, cluster)
            await until(lambda: app.is_ready and all(
                len(owned(app, group, TOPIC)) == QUEUES for group in ("billing", "audit", "inventory")
            ))  # fmt: skip

            lines.clear()
            await asyncio.to_thread(cluster.kill, "broker-a")
            await asyncio.to_thread(
                wait_until, lambda: not probe.known_brokers(cluster.name_server), "the name server forgets it"
            )
            app.cluster.routes.refresh_soon()  # type: ignore[union-attr]  # it runs
            await until(lambda: loud(lines).count("heartbeat not accepted") >= 5)
            assert ["not connected", *["heartbeat not accepted"] * (len(loud(lines)) - 1)] == loud(lines)
            assert not app.is_ready

            lines.clear()
            await asyncio.to_thread(cluster.start)
            await until(lambda: app.is_ready)
            (back,) = [line for line in lines if "after_ms" in line and line["event"] == "connected"]
            assert back["after_ms"] > 0

    try:
        with capture_logs() as lines:
            asyncio.run(scenario())
    finally:
        cluster.stop()


def made(cluster: Cluster) -> None:
    """The topic, before anything is sent to it."""
    (broker,) = cluster.addresses.brokers.values()
    code, body = probe.ask(
        broker, probe.UPDATE_TOPIC, topic=TOPIC, defaultTopic="TBW102", perm="6", readQueueNums=str(QUEUES),
        writeQueueNums=str(QUEUES), topicFilterType="SINGLE_TAG", topicSysFlag="0", order="false",
    )  # fmt: skip
    assert 0 == code, body
