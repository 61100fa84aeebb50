"""Conditions in SQL92: understood before anything runs, announced by heartbeat, and checked by the broker."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from framework import App, Message, Producer, consumer
from framework.errors import ConfigurationError
from framework.hooks.host import PluginHost
from framework.model.subscription import Subscription
from framework.net.task_tree import TaskTree
from framework.runtime.joining import refuse_filters
from framework.settings.schema import AppSettings
from framework.wire.bodies.heartbeat import CheckClientConfig, SubscriptionData
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.client.script import A, B, ScriptedCluster
from tests.net.memory import virtually
from tests.patience import until
from tests.runtime.test_app import box, run, running, send


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


def test_a_broker_that_does_not_filter_refuses_the_start() -> None:
    async def scenario() -> None:
        @consumer("orders", "billing", sql="price > 10")
        async def bill(message: Message) -> None: ...

        async with box() as broker:
            (node,) = broker.nodes
            await send(broker, "orders", "one")
            node.switches.put("enablePropertyFilter", "false")
            settings = AppSettings.model_validate({"cluster": {"name_servers": [broker.address]}})
            complaint = r"group billing, topic orders, sql='price > 10': broker .* enablePropertyFilter=true"
            with pytest.raises(ConfigurationError, match=complaint):
                await App(settings, [bill], plugins=PluginHost()).run()
            assert not node.members.client_ids("billing"), "it never joined"

    run(scenario)


def test_a_broker_that_filters_no_longer_is_named_with_the_way_out() -> None:
    async def scenario() -> None:
        @consumer("orders", "billing", sql="price > 10")
        async def bill(message: Message) -> None: ...

        async with box() as broker:
            (node,) = broker.nodes
            await send(broker, "orders", "one")
            async with running(broker, bill) as app:
                await until(lambda: app.idle_ms() > 0)
                node.switches.put("enablePropertyFilter", "false")
                async with Producer(name_servers=[broker.address]) as producer:
                    # What the held pull waits for: another message would not end it before its time.
                    await producer.send("orders", b"two", properties={"price": "11"})
                reasons: set[str | None] = set()

                def is_named() -> bool:
                    queues = [queue for group in app.snapshot().groups for queue in group.queues]
                    reasons.update(queue.reason for queue in queues if queue.place.topic == "orders")
                    return any("enablePropertyFilter=true" in (reason or "") for reason in reasons)

                await until(is_named)

    run(scenario)


WANTED = Subscription("orders", "price > 10", 7, "SQL92")
ASKS = RequestCode.CHECK_CLIENT_CONFIG


def answering(answer: RemotingCommand | None) -> Callable[[RemotingCommand], RemotingCommand | None]:
    return lambda request: answer if request.code == ASKS else RemotingCommand(0)


def asked(answers: dict[str, RemotingCommand | None]) -> tuple[str, int]:
    """What a group of one condition and one of tags hears from two brokers: the complaint, and how many were asked."""

    async def story() -> tuple[str, int]:
        cluster = ScriptedCluster()
        for address, answer in answers.items():
            cluster.scripts[address] = answering(answer)
        await cluster.client.routes.queues("orders")
        by_tag = Subscription("orders", "paid", 7)
        plans: Any = [
            SimpleNamespace(name="billing", subscriptions=(WANTED, by_tag)),
            SimpleNamespace(name="audit", subscriptions=(by_tag,)),
        ]
        tree = TaskTree(on_error=lambda *_: None)
        said = ""
        try:
            await refuse_filters(plans, cluster.client, "me@1", tree)
        except ConfigurationError as error:
            said = str(error)
        (request,) = cluster.asked(A, ASKS)
        told = CheckClientConfig.decode(request.body)
        assert ("me@1", "billing", "price > 10", "SQL92") == (
            told.client_id, told.group, told.subscription.expression, told.subscription.expression_type,
        )  # fmt: skip
        await tree.close()
        await cluster.client.close()
        return said, len(cluster.asked(A, ASKS)) + len(cluster.asked(B, ASKS))

    return virtually(story)


REFUSES = RemotingCommand(1, remark="The broker does not support consumer to filter message by SQL92")


def test_each_broker_of_the_topic_is_asked_and_each_that_refuses_is_named() -> None:
    said, count = asked({A: REFUSES, B: RemotingCommand(23, remark="not a word I know")})
    assert 2 == count
    assert "broker a refuses it: The broker does not support" in said
    assert "enablePropertyFilter=true" in said
    assert "broker b refuses it: not a word I know" in said


@pytest.mark.parametrize(
    "answer",
    [
        None,
        RemotingCommand(0),
        RemotingCommand(1, remark="disk is slow"),
        RemotingCommand(2, remark="busy"),
        RemotingCommand(3, remark="46?"),
    ],
)
def test_a_broker_that_is_away_busy_or_too_old_holds_nobody_up(answer: RemotingCommand | None) -> None:
    assert ("", 2) == asked({A: answer, B: RemotingCommand(0)})
    said, _ = asked({A: answer, B: REFUSES})
    assert "broker b refuses it" in said
    assert "broker a" not in said
