"""A group that has no retry queue: refused before it starts, and while it runs nothing that fails is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from framework import App, Delivery, RetryLater, consumer
from framework.broker.intercept import Interceptor
from framework.broker.request import Request
from framework.broker.server import Broker
from framework.errors import ConfigurationError
from framework.hooks.host import PluginHost
from framework.settings.schema import AppSettings
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.patience import until
from tests.runtime.test_app import box, run, running, send


def has_queues(broker: Broker, queues: int) -> None:
    """As `mqadmin updateSubGroup -g billing -q N`."""
    for node in broker.nodes:
        node.rules.put_group(replace(node.rules.group("billing"), retry_queues=queues))


def as_stock(broker: Broker) -> None:
    """Where a group has no retry queue, a send-back is answered with SUCCESS and keeps nothing."""

    def lacks(request: Request) -> bool:
        return request.node.rules.group("billing").retry_queues <= 0

    code = RequestCode.CONSUMER_SEND_MSG_BACK
    broker.intercept(Interceptor(code=code, answer=RemotingCommand(0), times=None, when=lacks))


@pytest.mark.parametrize("orderly", [False, True])
def test_a_start_is_refused_with_what_is_wrong_and_the_way_out(orderly: bool) -> None:
    async def scenario() -> None:
        @consumer("orders", "billing", orderly=orderly)
        async def bill(delivery: Delivery) -> None: ...

        async with box() as broker:
            await send(broker, "orders", "a")
            has_queues(broker, 0)
            settings = AppSettings.model_validate({"cluster": {"name_servers": [broker.address]}})
            complaint = r"group billing: retryQueueNums is 0 .* `framework-app doctor billing`"
            with pytest.raises(ConfigurationError, match=complaint):
                await App(settings, [bill], plugins=PluginHost()).run()
            assert not any(node.members.client_ids("billing") for node in broker.nodes), "it never joined"

    run(scenario)


def test_a_broadcasting_group_needs_none() -> None:
    async def scenario() -> None:
        @consumer("orders", "billing", broadcasting=True)
        async def bill(delivery: Delivery) -> None: ...

        async with box() as broker:
            await send(broker, "orders", "a")
            has_queues(broker, 0)
            async with running(broker, bill) as app:
                await until(lambda: app.is_ready)

    run(scenario)


def test_a_group_that_loses_its_own_is_not_ready_and_what_fails_is_kept_all_the_same() -> None:
    async def scenario() -> None:
        seen: list[tuple[bytes, int]] = []

        @consumer("orders", "billing")
        async def bill(delivery: Delivery) -> Any:
            seen.append((delivery.message.body, delivery.attempt))
            return RetryLater() if delivery.attempt == 1 else None

        async with box() as broker:
            as_stock(broker)
            await send(broker, "orders", "a")
            async with running(broker, bill) as app:
                await until(lambda: app.is_ready)
                has_queues(broker, 0)
                await send(broker, "orders", *map(str, range(20)))
                await until(lambda: len(seen) >= 41)
                assert not app.is_ready
                (group,) = app.snapshot().groups
                assert any("retryQueueNums is 0" in (queue.reason or "") for queue in group.queues)
                has_queues(broker, 1)
                await send(broker, "orders", "again")
                await until(lambda: app.is_ready)
            assert 22 == app.counts.retried

    run(scenario)
