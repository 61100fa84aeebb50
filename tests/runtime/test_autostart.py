"""`autostart: false`: a group that nobody hears of until somebody starts it."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from framework import App, Message, consumer
from framework.broker.intercept import Interceptor
from framework.errors import ConfigurationError
from framework.settings.schema import AppSettings
from framework.testing import Harness
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand


@consumer("orders", "billing")
async def bill(message: Message) -> None: ...


@consumer("orders", "stock", broadcasting=True)
async def count(message: Message) -> None: ...


def settings_of(**of_billing: Any) -> AppSettings:
    waits = {"autostart": False}
    return AppSettings.model_validate({"consumers": {"billing": {**waits, **of_billing}, "stock": waits}})


def app_of(desk: Harness) -> App:
    app = desk._cluster.apps[0].app
    assert app is not None
    return app


def start(desk: Harness, group: str) -> None:
    async def starting() -> None:
        app_of(desk).start_consumer(group)

    desk._run(starting())


def adopt(desk: Harness, settings: AppSettings) -> None:
    async def adopting() -> None:
        app_of(desk).adopt(settings)

    desk._run(adopting())


def test_a_group_joins_when_it_is_asked_to_and_misses_nothing_that_is_stored_for_it() -> None:
    with Harness([bill, count], settings=settings_of(start="first")) as desk:
        desk.send("orders", "tea")
        desk.sleep("5s")
        before = desk.snapshot()
        assert (True, (), ("billing", "stock")) == (before.is_ready, before.groups, before.dormant)
        assert 0 == app_of(desk).idle_ms()
        start(desk, "billing")
        start(desk, "billing")  # which changes nothing
        desk.sleep("5s")
        after = desk.snapshot()
        assert ["handled"] == [event["event"] for event in desk.events]
        assert [] == [line for line in desk.logs if line["level"] in {"warning", "error"}]
        assert (["billing"], ("stock",)) == ([group.group for group in after.groups], after.dormant)
        start(desk, "stock")
        desk.sleep("5s")
        desk.send("orders", "coffee")
        desk.sleep("5s")
        assert [2, 1] == [group.handled for group in desk.snapshot().groups]
        assert desk.snapshot().is_ready


def test_brokers_hear_nothing_of_a_group_that_waits() -> None:
    with Harness([bill, count], settings=settings_of()) as desk:
        broker = desk._cluster.broker.broker
        assert broker is not None
        (node,) = broker.nodes
        assert [] == node.members.client_ids("billing")
        start(desk, "billing")
        desk.sleep("1s")
        assert [app_of(desk).member] == node.members.client_ids("billing")


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_group_has_started_once_a_broker_has_taken_a_heartbeat_with_it(*, is_stopped: bool) -> None:
    """Three seconds after it was asked to, it counted as started, whoever was there."""
    with Harness([bill, count], settings=settings_of()) as desk:
        broker = desk._cluster.broker.broker
        assert broker is not None
        no = RemotingCommand(1, remark="not today")
        undo = broker.intercept(Interceptor(code=RequestCode.HEART_BEAT, answer=no, times=None))
        machine = desk._cluster.apps[0]
        assert machine.node is not None
        desk._cluster.loop.spawn(machine.node, starting(app_of(desk)), name="start")  # as from within
        desk.sleep("2m")
        assert (False, ()) == (desk.snapshot().is_ready, desk.snapshot().groups[0].queues)
        assert "group started" not in events(desk)
        assert 1 <= events(desk).count("heartbeat not accepted") <= 2
        if not is_stopped:
            undo()
            desk.sleep("35s")
            assert desk.snapshot().is_ready
            assert "group started" in events(desk)
    assert is_stopped == ("group started" not in events(desk))


async def starting(app: App) -> None:
    app.start_consumer("billing")


def events(desk: Harness) -> list[str]:
    return [line["event"] for line in desk.logs]


def test_what_changes_while_it_waits_holds_when_it_starts() -> None:
    with Harness([bill, count], settings=settings_of()) as desk:
        adopt(desk, settings_of(concurrency=3))
        start(desk, "billing")
        (group,) = desk.snapshot().groups
        assert (3, "3") == (app_of(desk)._groups[0].plan.settings.concurrency, group.settings["concurrency"])


def test_a_name_that_is_none_is_said_with_the_nearest() -> None:
    with (
        Harness([bill, count], settings=settings_of()) as desk,
        pytest.raises(
            ConfigurationError, match=re.escape("no group of this name is waiting to start; did you mean 'billing'?")
        ),
    ):
        start(desk, "biling")


def test_before_the_application_runs_nothing_can_be_started() -> None:
    async def story() -> None:
        with pytest.raises(ConfigurationError, match="the application has not started yet"):
            App(settings_of(), [bill, count]).start_consumer("billing")

    asyncio.run(story())
