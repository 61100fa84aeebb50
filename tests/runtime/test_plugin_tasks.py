"""Work of plugins beside the groups: a stop waits for it as for handlers, and no longer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from framework import App, Message, consumer
from framework.hooks import hookimpl
from framework.hooks.host import PluginHost
from framework.testing import Harness


@consumer("orders", "billing")
async def bill(message: Message) -> None: ...


class Works:
    """Sends what it has, when it is told to end, which takes a while."""

    def __init__(self, seconds: float, *, raises: bool = False, shrugs: bool = False) -> None:
        self.seconds, self.raises, self.shrugs = seconds, raises, shrugs
        self.notes: list[str] = []
        self._told = asyncio.Event()

    @hookimpl
    def app_started(self, app: App) -> None:
        app.accompany(self._work(app), name="the plugin's work")

    @hookimpl
    def app_stopping(self) -> None:
        self._told.set()

    async def _work(self, app: App) -> None:
        if self.raises:
            raise RuntimeError("no paper")
        await self._told.wait()
        try:
            await asyncio.sleep(self.seconds)
            assert app.cluster is not None
            await app.cluster.routes.queues("orders")
            self.notes.append("the cluster is still there")
        except asyncio.CancelledError:
            self.notes.append("cancelled")
            if self.shrugs:
                await asyncio.sleep(3_600)
            raise


def stopped(works: Works, **settings: Any) -> tuple[Harness, float]:
    desk = Harness(bill, settings=settings, plugins=PluginHost(objects={"works": works}, discover=list))
    with desk:
        before = desk.now
    return desk, desk.now - before


def test_a_stop_waits_for_it_with_the_connection_open() -> None:
    works = Works(5.0)
    _, took = stopped(works)

    assert ["the cluster is still there"] == works.notes
    assert took >= 5


@pytest.mark.parametrize("shrugs", [False, True])
def test_beyond_the_drain_limit_it_is_cancelled_and_named(shrugs: bool) -> None:
    works = Works(3_600.0, shrugs=shrugs)
    desk, took = stopped(works, app={"drain": "10s"})

    assert ["cancelled"] == works.notes
    assert 10 <= took < 20
    (said,) = [line for line in desk.logs if line["event"] == "plugin tasks cancelled"]
    assert ["the plugin's work"] == said["tasks"]


def test_one_that_raises_is_named_and_hurts_no_message() -> None:
    desk = Harness(bill, plugins=PluginHost(objects={"works": Works(0.0, raises=True)}, discover=list))
    with desk:
        desk.send("orders", "tea")
        assert ["handled"] == [event["event"] for event in desk.settle()]

    (said,) = [line for line in desk.logs if line["event"] == "plugin task failed"]
    assert "the plugin's work" == said["task"]
