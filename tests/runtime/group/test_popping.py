"""What does not fit a group that pops is refused before it starts, with the setting, the reason and the way out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from framework import App, Message, consumer
from framework.errors import ConfigurationError
from framework.settings.schema import AppSettings

POP = {"delivery": "pop"}


@pytest.mark.parametrize(
    ("way", "chosen", "expected"),
    [
        ({"orderly": True}, POP, "delivery: orderly groups cannot pop, .*; write pull"),
        ({"orderly": True}, {"delivery": "broker"}, "delivery: orderly groups cannot pop, .*; write pull"),
        ({"broadcasting": True}, POP, "delivery: broadcasting groups cannot pop, .*; write pull"),
        ({}, {"delivery": "pull", "invisible": "30s"}, "invisible: only groups that pop have it; write delivery: pop"),
        ({}, {**POP, "start": "30m"}, "start: groups that pop start at first or last"),
        ({}, {**POP, "progress": "topic"}, "progress: brokers keep which popped messages are done; remove it"),
        ({}, {**POP, "skip_older_than": "1h"}, "skip_older_than: popped messages are not skipped; remove it"),
        ({}, {**POP, "skip_backlog_over": 100}, "skip_backlog_over: popped messages are not skipped; remove it"),
        ({}, {**POP, "damaged": "skip"}, "damaged: a damaged record comes back by itself, .*; remove it"),
        ({}, {**POP, "allocation": "averaging"}, "allocation: members that pop do not divide queues; remove it"),
    ],
)
def test_what_does_not_fit_is_refused(way: dict[str, Any], chosen: dict[str, Any], expected: str) -> None:
    @consumer(topic="orders", group="billing", **way)
    async def bill(message: Message) -> None: ...

    async def scenario() -> None:
        with pytest.raises(ConfigurationError, match=rf"consumers\.billing\.{expected}"):
            await App(AppSettings.model_validate({"consumers": {"billing": chosen}}), [bill]).run()

    asyncio.run(scenario())
