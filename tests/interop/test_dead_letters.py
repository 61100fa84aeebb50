"""Dead letters on a real cluster carry why, in properties, whoever buried them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from framework import DeadLetter, Message, Producer, RetryLater, consumer
from tests.interop.cluster import Addresses
from tests.interop.inside import application, running
from tests.interop.java_peer import JavaPeer
from tests.patience import until

pytestmark = pytest.mark.interop

WAYS: dict[str, dict[str, Any]] = {"plain": {}, "orderly": {"orderly": True}, "batch": {"batch": 2}}


def fate(message: Message) -> object:
    if message.body == b"dead":
        return DeadLetter("no such order")
    if message.attempt == 1:
        return RetryLater("1s", "not yet")
    raise ValueError("no stock")


def handler_of(topic: str, way: str) -> Any:
    def handle(message: Message) -> object:
        return fate(message)

    async def awaited(message: Message) -> object:
        return fate(message)

    async def batch(messages: list[Message]) -> object:
        outcomes: list[object] = []
        for each in messages:
            try:
                outcomes.append(fate(each))
            except ValueError as error:
                outcomes.append(DeadLetter(f"ValueError: {error}"))
        return outcomes

    chosen: Any = {"plain": awaited, "orderly": handle, "batch": batch}[way]
    return consumer(topic, f"{way}-{topic}", **WAYS[way])(chosen)


def test_the_reason_and_the_place_of_the_first_delivery_travel_with_a_dead_letter(
    cluster: Addresses, java: JavaPeer, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(queues=1)

    async def story() -> list[Any]:
        async with Producer(name_servers=[cluster.name_server]) as producer:
            sent = [await producer.send(topic, body, keys=body) for body in ("dead", "poison")]
        app = application(cluster.name_server, *(handler_of(topic, way) for way in WAYS), of_group={"max_retries": 1})
        async with running(app):
            await until(lambda: app.counts.dead_lettered == 2 * len(WAYS), patience_s=90)
        return sent

    dead, poison = asyncio.run(story())
    for way in WAYS:
        grave = java.consume(cluster.name_server, f"undertaker-{way}-{topic}", f"%DLQ%{way}-{topic}")
        buried = {each.body: each for each in grave.received(2, timeout_s=60)}
        grave.leave()
        assert {b"dead", b"poison"} == set(buried)
        for body, sent, reason, attempts in (
            (b"dead", dead, "no such order", "1"),
            (b"poison", poison, "ValueError: no stock", "2"),
        ):
            told = buried[body].properties
            place = f"{topic}@{sent.queue.broker}:{sent.queue.number}:{sent.queue_offset}"
            assert (reason, attempts, place) == tuple(
                told[f"DEAD_LETTER_{name}"] for name in ("REASON", "ATTEMPTS", "ORIGIN")
            ), way
            assert told["DEAD_LETTER_MEMBER"]
            assert told["DEAD_LETTER_TIME"].isdigit()
            is_raised = body == b"poison" and way != "batch"
            assert ("ValueError" if is_raised else None) == told.get("DEAD_LETTER_ERROR"), way
            assert (sent.message_id, topic) == (buried[body].message_id, told["RETRY_TOPIC"])
