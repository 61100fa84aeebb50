"""Traces of deliveries and sends, with the real runtime and the broker in the box."""

from __future__ import annotations

from typing import Any

import pytest

from framework import Message, Producer, consumer
from framework.broker.server import Broker
from tests.patience import until
from tests.runtime.test_app import box, run, running

TOPIC = "RMQ_SYS_TRACE_TOPIC"


async def records(broker: Broker, topic: str, enough: int) -> list[list[str]]:
    """Every record of the topic, split into fields; read as anybody would, and put in the order of the broker's log."""
    bodies: dict[int, bytes] = {}

    @consumer(topic=topic, group="readers-of-traces")
    async def note(message: Message) -> None:
        bodies[message.commit_log_offset] = message.body

    def found() -> list[list[str]]:
        text = b"".join(bodies[place] for place in sorted(bodies)).decode()
        return [record.split("\x01") for record in text.split("\x02") if record]

    async with running(broker, note):
        await until(lambda: len(found()) >= enough)
    return found()


@pytest.mark.parametrize("kind", ["async", "plain", "batch", "orderly"])
def test_each_delivery_leaves_two_records_that_belong_together(kind: str) -> None:
    async def scenario() -> None:
        seen: list[str] = []

        def act(message: Message) -> None:
            seen.append(message.message_id)
            if len(seen) == 1:
                raise ValueError("the first one fails")

        @consumer(topic="orders", group="billing")
        async def one(message: Message) -> None:
            act(message)

        @consumer(topic="orders", group="billing")
        def plain(message: Message) -> None:
            act(message)

        @consumer(topic="orders", group="billing", batch=4, linger="10ms")
        async def batch(messages: list[Message]) -> None:
            act(messages[0])

        @consumer(topic="orders", group="billing", orderly=True)
        async def orderly(message: Message) -> None:
            act(message)

        handler: Any = {"async": one, "plain": plain, "batch": batch, "orderly": orderly}[kind]
        async with box() as broker:
            async with Producer(name_servers=[broker.address]) as producer:
                sent = await producer.send("orders", b"paid", keys="k1")
            async with running(broker, handler, trace=True):
                await until(lambda: len(seen) == 2)
            rows = await records(broker, TOPIC, 4)
        first, failed, again, handled = rows
        assert [sent.message_id] * 4 == [first[5], failed[2], again[5], handled[2]]
        assert ["SubBefore", "DefaultRegion", "billing", "0", "k1"] == [first[0], *first[2:4], *first[6:]]
        assert ["SubAfter", "false", "k1", "2", "billing"] == [failed[0], *failed[4:7], failed[8]]
        assert ["SubAfter", "true", "k1", "0", "billing"] == [handled[0], *handled[4:7], handled[8]]
        assert (first[4], again[4]) == (failed[1], handled[1])
        assert first[4] != again[4]
        assert ("0" if kind == "orderly" else "1") == again[6] or kind == "orderly", again

    run(scenario)


def test_a_producer_tells_what_was_stored_each_message_of_a_batch_too() -> None:
    async def scenario() -> None:
        async with box() as broker:
            async with Producer(
                name_servers=[broker.address], group="makers", trace=True, trace_topic="tt"
            ) as producer:
                sent = [await producer.send("orders", b"paid", tags="red", keys="k1")]
                sent += await producer.send_batch([Message("orders", b"xy"), Message("orders", b"xyz")])
            rows = await records(broker, "tt", 3)
        assert [each.message_id for each in sent] == [row[5] for row in rows]
        assert [each.offset_message_id for each in sent] == [row[12] for row in rows]
        assert ["Pub", "DefaultRegion", "makers", "orders", "red", "k1", broker.address, "4", "0", "true"] == [
            rows[0][0], *rows[0][2:5], *rows[0][6:10], rows[0][11], rows[0][13],
        ]  # fmt: skip
        assert ["null", "null", "3"] == [*rows[2][6:8], rows[2][9]]

    run(scenario)


def test_nothing_of_it_is_there_where_it_is_off() -> None:
    @consumer(topic="orders", group="billing")
    async def bill(message: Message) -> None:
        return

    async def scenario() -> None:
        async with box() as broker, running(broker, bill) as app:
            await until(lambda: app._groups)
            (group,) = app._groups
            assert group.plan.trace is None
            assert group.plan.handling["orders"].call is bill.spec.function

    run(scenario)
