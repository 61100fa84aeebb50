"""A group on a real cluster is resized from 4 to 20 handlers and to 2.

How soon is bounded in virtual time (`scenarios/test_resizing.py`); on a machine with nothing else to do it is measured
here, too: `make slow PART=resizing`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from framework import Message, consumer
from tests.interop.cluster import Addresses
from tests.interop.inside import application, running, seconds_until
from tests.interop.java_peer import JavaPeer
from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.interop

COUNT = 240
HANDLER_S = 0.1


class Gauge:
    """How many handlers run, the most at once, and how often each message was handled."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.runs: Counter[bytes] = Counter()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *failure: object) -> None:
        with self._lock:
            self.now -= 1

    def handler(self, kind: str, topic: str) -> Any:
        if kind == "threads":

            @consumer(topic, f"pool-of-{topic}")
            def work(message: Message) -> None:
                with self:
                    self.runs[message.body] += 1
                    time.sleep(HANDLER_S)

            return work

        @consumer(topic, f"pool-of-{topic}")
        async def work_async(message: Message) -> None:
            with self:
                self.runs[message.body] += 1
                await asyncio.sleep(HANDLER_S)

        return work_async


@pytest.mark.parametrize(
    "within_s",
    [pytest.param(PATIENCE_S, id="at load"), pytest.param(1.0, id="within a second", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("kind", ["tasks", "threads"])
def test_four_become_twenty_and_then_two_and_each_message_is_handled_once(
    kind: str, within_s: float, cluster: Addresses, java: JavaPeer, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(queues=4)
    java.fill(cluster.name_server, topic, COUNT, batch=10)
    gauge = Gauge()
    app = application(cluster.name_server, gauge.handler(kind, topic), of_group={"concurrency": 4})
    (group,) = {each.spec.group for each in app.consumers}

    async def scenario() -> None:
        async with running(app):
            await until(lambda: gauge.now == 4)
            assert 4 == gauge.most
            app.resize(group, 20)
            grown_s = await seconds_until(lambda: gauge.most == 20, within_s)
            app.resize(group, 2)
            shrunk_s = await seconds_until(lambda: gauge.now <= 2, within_s)
            gauge.most = 0
            begun = sum(gauge.runs.values())
            await until(lambda: sum(gauge.runs.values()) >= begun + 6)
            assert 2 == gauge.most, "and two it stays"
            print(f"{kind}: 20 after {grown_s:.2f} s, 2 after {shrunk_s:.2f} s")
            app.resize(group, 20)
            await until(lambda: app.counts.handled == COUNT)

    asyncio.run(scenario())
    assert {b"m%d" % number: 1 for number in range(COUNT)} == {body.split()[0]: n for body, n in gauge.runs.items()}
