"""A group whose members are not of one kind, with the real runtime and the broker in the box."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from framework import App, Message, consumer
from framework.core.consistency import OTHER_ORDER, OTHER_TOPICS
from framework.hooks.host import PluginHost
from framework.services import consistency
from framework.settings.schema import AppSettings
from tests.patience import until
from tests.runtime.test_app import box, run, send


def test_orderly_and_concurrent_members_are_named_and_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consistency, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(consistency, "SETTLED_SECONDS", 0.05)
    monkeypatch.setattr(consistency, "AGAIN_SECONDS", 0.05)

    @consumer(topic="orders", group="billing")
    async def bill(message: Message) -> None: ...

    @consumer(topic="orders", group="billing", orderly=True, tags="paid")
    async def bill_in_order(message: Message) -> None: ...

    async def scenario() -> None:
        async with box() as broker:
            await send(broker, "orders", "a")
            settings = AppSettings.model_validate({"cluster": {"name_servers": [broker.address]}})
            apps = [App(settings, [each], plugins=PluginHost()) for each in (bill, bill_in_order)]
            loop = asyncio.get_running_loop()
            first = loop.create_task(apps[0].run())
            await until(lambda: apps[0].is_ready)
            second = loop.create_task(apps[1].run())
            await until(lambda: all(named(app.member) for app in apps))
            assert not any(app.is_ready for app in apps)
            await apps[1].stop(drain="1s")
            await second
            await until(lambda: apps[0].is_ready)
            await apps[0].stop(drain="1s")
            await first

    with capture_logs() as lines:

        def named(member: str) -> bool:
            found = {line["reason"] for line in lines if line["event"] == "group inconsistent" and line["us"] == member}
            return {OTHER_ORDER, OTHER_TOPICS} <= found

        run(scenario)
