"""`rate` in a whole application in virtual time: each kind of handler keeps it, and it changes while it runs."""

from __future__ import annotations

from typing import Any

import pytest

from framework import App, Message, consumer
from framework.settings.schema import AppSettings
from framework.testing import Harness

COUNT = 60


def settings_of(rate: str | None) -> AppSettings:
    parsed = AppSettings.parsed({"consumers": {"billing": {} if rate is None else {"rate": rate}}}, {})
    assert isinstance(parsed, AppSettings), parsed
    return parsed


def app_of(desk: Harness) -> App:
    app = desk._cluster.apps[0].app
    assert app is not None
    return app


def adopt(desk: Harness, rate: str | None) -> None:
    async def adopting() -> None:
        app_of(desk).adopt(settings_of(rate))

    desk._run(adopting())


async def bill(message: Message) -> None: ...


def bill_at_once(message: Message) -> None: ...


async def bill_many(messages: list[Message]) -> None: ...


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (bill, {}),
        (bill_at_once, {}),
        (bill, {"orderly": True}),
        (bill, {"broadcasting": True}),
        (bill_many, {"batch": 4}),
    ],
    ids=["async", "thread", "orderly", "broadcasting", "batch"],
)
def test_every_kind_of_handler_keeps_the_rate(function: Any, options: dict[str, Any]) -> None:
    with Harness(consumer("orders", "billing", **options)(function), settings=settings_of("10/s")) as desk:
        for number in range(COUNT):
            desk.send("orders", f"{number}")
        desk.sleep("2s")
        handled = app_of(desk).counts.handled
        assert 18 <= handled <= 30, "some were handled while the others were sent"
        assert "rate" in {queue.reason for group in desk.snapshot().groups for queue in group.queues}
        desk.sleep("1s")
        assert 8 <= app_of(desk).counts.handled - handled <= 12
        desk.sleep("4s")
        assert COUNT == app_of(desk).counts.handled


def test_a_rate_is_live_both_ways() -> None:
    with Harness(consumer("orders", "billing")(bill), settings=settings_of("1/h")) as desk:
        for number in range(COUNT):
            desk.send("orders", f"{number}")
        desk.sleep("2s")
        assert 1 == app_of(desk).counts.handled
        adopt(desk, "20/s")
        desk.sleep("1s")
        assert 18 <= app_of(desk).counts.handled - 1 <= 22
        adopt(desk, None)
        desk.sleep("1s")
        assert COUNT == app_of(desk).counts.handled
        adopt(desk, "1/h")
        for number in range(10):
            desk.send("orders", f"{number}")
        desk.sleep("1s")
        assert COUNT + 1 == app_of(desk).counts.handled


def test_a_rate_that_is_none_is_named() -> None:
    (mistake,) = AppSettings.parsed({"consumers": {"billing": {"rate": "fast"}}}, {})
    assert "write a rate such as 100/s" in str(mistake)
