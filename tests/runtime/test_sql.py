"""Conditions in SQL92: understood before anything runs, announced by heartbeat, and checked by the broker."""

from __future__ import annotations

from typing import Any

import pytest

from framework import Message, Producer, consumer
from framework.broker import switches
from framework.errors import ConfigurationError
from framework.model.subscription import Subscription
from framework.wire.bodies.heartbeat import SubscriptionData
from tests.runtime.test_app import box, run, running, until


def declared(**options: Any) -> None:
    @consumer("orders", "billing", **options)
    def bill(message: Message) -> None: ...


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"sql": "price >"}, r"SQL92 filter, character 8: "),
        ({"sql": "price > 10 region"}, r"SQL92 filter, character 12: "),
        ({"sql": 5}, "sql=5: write a condition"),
        ({"sql": "a = 1", "tags": "paid"}, "tags and sql together"),
        ({"sql": "a = 1", "tags": "*"}, "tags and sql together"),
        ({"filter_class": "org.example.Mine"}, "no broker since 5.0 runs filter classes"),
    ],
)
def test_what_cannot_work_is_said_at_the_function(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint) as caught:
        declared(**options)
    assert "test_sql.py" in str(caught.value.place)


def test_a_condition_is_announced_as_java_does() -> None:
    data = SubscriptionData.of(Subscription("orders", "a = 'x || y'", 7, "SQL92"))

    assert ("a = 'x || y'", "SQL92", (), (), 7) == (
        data.expression, data.expression_type, data.tags, data.codes, data.version,
    )  # fmt: skip


def test_what_does_not_match_is_passed_over_and_offsets_pass_it_too() -> None:
    async def scenario() -> None:
        seen: list[bytes] = []

        @consumer("orders", "billing", sql="price > 10 AND region = 'eu'")
        async def bill(message: Message) -> None:
            seen.append(message.body)

        async with box() as broker:
            async with Producer(name_servers=[broker.address]) as producer:
                for price in range(8, 15):
                    for region in ("eu", "us"):
                        properties = {"price": str(price), "region": region}
                        await producer.send("orders", f"{region}{price}".encode(), properties=properties)
            async with running(broker, bill) as app:
                await until(lambda: app.counts.handled == 4)
                await until(lambda: app.idle_ms() > 50)
                queues = app.snapshot().groups[0].queues
            assert 14 == sum(queue.committable for queue in queues if queue.place.topic == "orders")
        assert [b"eu11", b"eu12", b"eu13", b"eu14"] == sorted(seen)

    run(scenario)


def test_a_broker_that_does_not_filter_is_named_with_the_way_out() -> None:
    async def scenario() -> None:
        @consumer("orders", "billing", sql="price > 10")
        async def bill(message: Message) -> None: ...

        async with box() as broker:
            (node,) = broker.nodes
            async with Producer(name_servers=[broker.address]) as producer:
                await producer.send("orders", b"one")
            node.switches.put(switches.SQL, "false")
            async with running(broker, bill) as app:
                reasons: set[str | None] = set()

                def is_named() -> bool:
                    queues = [queue for group in app.snapshot().groups for queue in group.queues]
                    reasons.update(queue.reason for queue in queues if queue.place.topic == "orders")
                    return any("enablePropertyFilter=true" in (reason or "") for reason in reasons)

                await until(is_named)

    run(scenario)
