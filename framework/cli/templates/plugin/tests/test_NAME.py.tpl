"""The plugin in an application, against a broker in memory; time is virtual, so that slow handlers cost nothing."""

from __future__ import annotations

from pathlib import Path

from framework import App
from framework.testing import Harness

SETTINGS = Path(__file__).parents[1] / "framework-app.yaml"


def test_only_slow_handlers_are_named() -> None:
    with Harness(App.from_yaml(SETTINGS)) as app:
        app.send("naps", "0.1")
        slow = app.send("naps", "3")
        events = app.settle()
        named = [line for line in app.logs if line["event"] == "slow handler"]

    assert [event["event"] for event in events] == ["handled", "handled"]
    assert [line["message_id"] for line in named] == [slow.message_id]
    assert 3_000 <= named[0]["elapsed_ms"] < 3_100
