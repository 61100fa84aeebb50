"""The whole application against a broker in memory; time is virtual, so that waiting for retries costs nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from framework import App
from framework.testing import Harness

from $name import handlers

SETTINGS = Path(__file__).parents[1] / "framework-app.yaml"
ORDER = '{"number": "1", "cents": 2500}'


def test_an_order_is_billed(capsys: pytest.CaptureFixture[str]) -> None:
    with Harness(App.from_yaml(SETTINGS)) as app:
        app.send("orders", ORDER)
        events = app.settle()

    assert [event["event"] for event in events] == ["handled"]
    assert "billed order 1: 25.00\n" in capsys.readouterr().out


def test_a_busy_provider_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def busy_at_first(order: handlers.Order) -> None:
        asked.append(order.number)
        if len(asked) == 1:
            raise handlers.Busy("come back in a second")

    monkeypatch.setattr(handlers, "charge", busy_at_first)
    with Harness(App.from_yaml(SETTINGS)) as app:
        app.send("orders", ORDER)
        events = app.settle()

    assert [event["event"] for event in events] == ["retry", "handled"]
    assert asked == ["1", "1"]


def test_a_body_that_is_no_order_is_a_dead_letter() -> None:
    with Harness(App.from_yaml(SETTINGS)) as app:
        app.send("orders", "not even JSON")
        events = app.settle()
        dead = app.dead_letters("$name")

    assert [event["event"] for event in events] == ["dead_lettered"]
    assert [message.body for message in dead] == [b"not even JSON"]
