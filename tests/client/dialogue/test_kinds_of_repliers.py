"""Replies of every kind of handler and to many requests at once; what is handled twice is replied to twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from framework import App, Message, Producer, SyncProducer, consumer, replies
from framework.broker.server import Broker
from framework.hooks.host import PluginHost
from framework.settings.schema import AppSettings
from tests.client.dialogue.test_with_the_box import box
from tests.patience import until
from tests.runtime.test_app import run, running


@asynccontextmanager
async def member(broker: Broker, handler: Any, folder: Path, **group: Any) -> AsyncIterator[App]:
    """As `running`, with a folder for the offsets of broadcasting groups."""
    settings = {
        "cluster": {"name_servers": [broker.address]}, "consumers": {handler.spec.group: {"start": "first", **group}},
        "broadcasting": {"folder": str(folder)},
    }  # fmt: skip
    app = App(AppSettings.model_validate(settings), [handler], plugins=PluginHost())
    task = asyncio.ensure_future(app.run())
    try:
        yield app
    finally:
        await app.stop()
        await task


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"orderly": True}, {}),
        ({"orderly": "key"}, {}),
        ({"broadcasting": True}, {}),
        ({}, {"delivery": "pop"}),
    ],
    ids=["orderly", "orderly by key", "broadcasting", "pop"],
)
def test_handlers_of_each_kind_reply(options: dict[str, Any], settings: dict[str, Any], tmp_path: Path) -> None:
    async def story() -> None:
        @consumer("prices", "pricing", **options)
        @replies
        async def price(message: Message) -> bytes:
            return b"re: " + message.body

        async with (
            box() as broker,
            member(broker, price, tmp_path, **settings) as app,
            Producer(name_servers=broker.address) as producer,
        ):
            await until(lambda: app.is_ready)
            asked = [producer.request("prices", f"{n}", order_key="k", timeout="1m") for n in range(5)]
            answers = [reply.body for reply in await asyncio.gather(*asked)]

            assert [b"re: %d" % n for n in range(5)] == answers

    run(story)


def test_the_first_of_several_replies_is_the_answer_and_the_others_are_late(tmp_path: Path) -> None:
    """As of two members of a broadcasting group, or of a handler whose process ended behind its reply."""

    async def story() -> None:
        @consumer("prices", "pricing", broadcasting=True)
        @replies
        async def price(message: Message) -> bytes:
            return b"1999"

        async with (
            box() as broker,
            member(broker, price, tmp_path / "a") as a,
            member(broker, price, tmp_path / "b") as b,
            Producer(name_servers=broker.address) as producer,
        ):
            await until(lambda: a.is_ready and b.is_ready)
            assert b"1999" == (await producer.request("prices", b"tea", timeout="1m")).body
            await until(lambda: producer.cluster.requests.late == 1)

            await until(lambda: (a.snapshot().replies["sent"], b.snapshot().replies["sent"]) == (1, 1))

    run(story)


def test_a_thousand_requests_at_once_get_each_its_reply() -> None:
    async def story() -> None:
        @consumer("prices", "pricing")
        @replies
        async def price(message: Message) -> bytes:
            return b"re: " + message.body

        async with box() as broker, running(broker, price), Producer(name_servers=broker.address) as producer:
            asked = [producer.request("prices", f"{n}", timeout="1m") for n in range(1_000)]
            answers = [reply.body for reply in await asyncio.gather(*asked)]

            assert [b"re: %d" % n for n in range(1_000)] == answers
            assert 0 == producer.cluster.requests.late

    run(story)


def test_threads_that_share_a_producer_get_each_its_reply() -> None:
    async def story() -> None:
        @consumer("prices", "pricing")
        @replies
        async def price(message: Message) -> bytes:
            return b"re: " + message.body

        def ask(producer: SyncProducer, thread: int) -> list[bytes]:
            return [producer.request("prices", f"{thread}/{n}", timeout="1m").body for n in range(5)]

        async with box() as broker, running(broker, price):
            producer = SyncProducer(name_servers=broker.address)
            await asyncio.to_thread(producer.start)
            answers = await asyncio.gather(*(asyncio.to_thread(ask, producer, thread) for thread in range(10)))
            await asyncio.to_thread(producer.stop)

            assert [[b"re: %d/%d" % (thread, n) for n in range(5)] for thread in range(10)] == answers

    run(story)


def test_a_handler_that_failed_replies_by_its_retry() -> None:
    async def story() -> None:
        attempts: list[int] = []

        @consumer("prices", "pricing", orderly=True)  # retried where it is, after a second
        @replies
        async def price(message: Message) -> bytes:
            attempts.append(message.attempt)
            if len(attempts) == 1:
                raise RuntimeError("the price list is away")
            return b"1999"

        async with box() as broker, running(broker, price), Producer(name_servers=broker.address) as producer:
            reply = await producer.request("prices", b"tea", timeout="1m")

            assert b"1999" == reply.body
            assert [1, 2] == attempts

    run(story)
