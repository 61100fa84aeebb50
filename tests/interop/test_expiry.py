"""Handlers that take too long, on a real cluster: each is given up at its limit, and its message comes once more."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from framework import App, Delivery, Message, Producer, consumer
from framework.declare import Consumer
from framework.hooks.host import PluginHost
from framework.settings.schema import AppSettings
from tests.interop.cluster import Addresses
from tests.patience import PATIENCE_S, soon, until

pytestmark = pytest.mark.interop
COUNT = 1_000
LIMIT_S = 2.0


def settings_of(name_server: str, group: str, **of_group: object) -> AppSettings:
    return AppSettings.model_validate(
        {"cluster": {"name_servers": [name_server]}, "consumers": {group: {"start": "first", **of_group}}}
    )


async def send(name_server: str, topic: str, count: int) -> None:
    async with Producer(name_servers=[name_server]) as producer:
        for begin in range(0, count, 100):
            await producer.send_batch([Message(topic, b"%d" % at) for at in range(begin, min(begin + 100, count))])


def app_of(settings: AppSettings, handler: Consumer[..., Any]) -> App:
    return App(settings, [handler], plugins=PluginHost(discover=lambda: ()))


async def thousand(name_server: str, topic: str) -> list[float]:
    """How late each of a thousand sleeping handlers was cancelled, in seconds."""
    late: list[float] = []

    @consumer(topic, f"sleepers-of-{topic}")
    async def sleep(message: Message, delivery: Delivery) -> None:
        try:
            await asyncio.sleep(600)
        finally:
            if delivery.is_expired:
                late.append(time.monotonic() - delivery.started - LIMIT_S)

    await send(name_server, topic, COUNT)
    group = f"sleepers-of-{topic}"
    app = app_of(settings_of(name_server, group, timeout=f"{LIMIT_S:g}s", expiry="drop", concurrency=COUNT), sleep)
    running = asyncio.get_running_loop().create_task(app.run())
    await until(lambda: app.counts.dropped == COUNT)
    await app.stop(drain=1)
    await running
    assert COUNT == len(late) == app.counts.timed_out
    return late


def test_a_thousand_sleeping_handlers_expire_once_each(cluster: Addresses, new_topic: Callable[..., str]) -> None:
    late = asyncio.run(thousand(cluster.name_server, new_topic(queues=8)))
    assert min(late) >= 0, "nobody is given up too soon"


@pytest.mark.slow
def test_a_thousand_sleeping_handlers_expire_within_a_tenth_of_a_second_each(
    cluster: Addresses, new_topic: Callable[..., str]
) -> None:
    """On a machine that has nothing else to do: `make slow PART=thousand_sleeping`."""
    late = asyncio.run(thousand(cluster.name_server, new_topic(queues=8)))
    print(f"{COUNT} handlers with a limit of {LIMIT_S:g} s: given up {min(late):.3f} to {max(late):.3f} s after it")
    assert 0 <= min(late)
    assert max(late) <= 0.1


@pytest.mark.parametrize("limit_s", [1, pytest.param(60, marks=pytest.mark.slow)])
def test_a_limit_that_is_changed_holds_for_what_runs(
    cluster: Addresses, new_topic: Callable[..., str], limit_s: int
) -> None:
    """15 minutes become one second, or one minute, while a handler is at it."""
    topic = new_topic(queues=1)
    group = f"sleepers-of-{topic}"
    begun = asyncio.Event()
    ran: list[float] = []

    @consumer(topic, group)
    async def sleep(message: Message, delivery: Delivery) -> None:
        begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            ran.append(time.monotonic() - delivery.started)

    async def scenario() -> None:
        await send(cluster.name_server, topic, 1)
        app = app_of(settings_of(cluster.name_server, group, timeout="15m", expiry="drop"), sleep)
        running = asyncio.get_running_loop().create_task(app.run())
        await soon(begun.wait(), "a handler's begin")
        assert not app.counts.dropped
        app.adopt(settings_of(cluster.name_server, group, timeout=f"{limit_s}s", expiry="drop"))
        await until(lambda: app.counts.dropped == 1, patience_s=limit_s + PATIENCE_S)
        await app.stop(drain=1)
        await running

    asyncio.run(scenario())
    print(f"15m changed to {limit_s} s: its handler was given up after {ran[0]:.3f} s")
    assert ran[0] >= limit_s


def test_endless_loops_on_all_threads_stop_nobody(cluster: Addresses, new_topic: Callable[..., str]) -> None:
    """As many plain handlers hang as there are threads: each message comes once more for it, and the others go on."""
    topic = new_topic(queues=1)
    group = f"loops-of-{topic}"
    tries: Counter[tuple[bytes, int]] = Counter()
    over = threading.Event()

    @consumer(topic, group)
    def loop(message: Message) -> None:
        tries[message.body, message.attempt] += 1
        if int(message.body) < 4 and message.attempt == 1:
            while not over.is_set():
                time.sleep(0.05)

    async def scenario() -> None:
        await send(cluster.name_server, topic, 40)
        app = app_of(settings_of(cluster.name_server, group, timeout="1s", concurrency=4), loop)
        running = asyncio.get_running_loop().create_task(app.run())
        try:
            await until(lambda: {(b"%d" % at, 2) for at in range(4)} <= set(tries), patience_s=90)
            await until(lambda: {(b"%d" % at, 1) for at in range(40)} <= set(tries))
        finally:
            over.set()
            await app.stop(drain=1)
            await running
        assert 4 == app.counts.timed_out

    asyncio.run(scenario())
    assert {(b"%d" % at, 1): 1 for at in range(40)} | {(b"%d" % at, 2): 1 for at in range(4)} == tries
