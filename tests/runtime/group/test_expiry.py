"""Limits of time as an application runs with them: live, refused in order, and a group that says when it is stuck."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from framework import App, Message, consumer
from framework.errors import ConfigurationError
from framework.settings.schema import AppSettings
from tests.patience import PATIENCE_S, until
from tests.runtime.test_app import box, run, running, send


def settings_of(app: App, **consumer_settings: Any) -> AppSettings:
    """The application's settings with these of its group."""
    chosen = app.settings.consumer("billing")
    group = {name: getattr(chosen, name) for name in chosen.model_fields_set} | consumer_settings
    return AppSettings.model_validate({"cluster": app.settings.cluster, "consumers": {"billing": group}})


def test_a_limit_and_a_policy_that_are_changed_hold_for_handlers_that_run() -> None:
    async def scenario() -> None:
        begun: list[bytes] = []
        cancelled: list[bytes] = []

        @consumer(topic="orders", group="billing")
        async def bill(message: Message) -> None:
            begun.append(message.body)
            try:
                await asyncio.sleep(3_600)
            except asyncio.CancelledError:
                cancelled.append(message.body)
                raise

        async with box() as broker:
            await send(broker, "orders", "one", "two")
            async with running(broker, bill) as app:
                await until(lambda: len(begun) == 2)
                app.adopt(settings_of(app, timeout="300ms", expiry="drop"))
                await until(lambda: app.counts.dropped == len(cancelled) == 2)
                assert {b"one", b"two"} == set(cancelled)
                assert (2, 0, 0) == (app.counts.timed_out, app.counts.late, app.counts.handled)

    run(scenario)


@pytest.mark.parametrize("setting", [{"timeout": "1m"}, {"expiry": "drop"}])
def test_an_orderly_group_has_no_limit_and_says_so(setting: dict[str, str]) -> None:
    @consumer(topic="orders", group="billing", orderly=True)
    def bill(message: Message) -> None: ...

    async def scenario() -> None:
        settings = AppSettings.model_validate({"consumers": {"billing": setting}})
        with pytest.raises(ConfigurationError, match=r"consumers\.billing\.(timeout|expiry): .*stuck_after"):
            await App(settings, [bill]).run()

    asyncio.run(scenario())


def test_a_policy_that_is_not_there_stops_the_start() -> None:
    @consumer(topic="orders", group="billing")
    def bill(message: Message) -> None: ...

    async def scenario() -> None:
        settings = AppSettings.model_validate({"consumers": {"billing": {"expiry": "dead_leter"}}})
        with pytest.raises(ConfigurationError, match="did you mean 'dead_letter'"):
            await App(settings, [bill]).run()

    asyncio.run(scenario())


def test_a_group_whose_threads_all_hang_is_not_ready_and_says_where() -> None:
    let_go = threading.Event()

    @consumer(topic="orders", group="billing")
    def bill(message: Message) -> None:
        let_go.wait(PATIENCE_S)

    async def scenario() -> None:
        with capture_logs() as lines:
            await hang(lines)
        (said,) = [line for line in lines if line["event"].startswith("handlers hung")]
        assert (1, 2) == (said["missing"], said["hanging"])
        assert ".bill(group/test_expiry.py:" in said["places"][0]

    async def hang(lines: list[MutableMapping[str, Any]]) -> None:
        async with box() as broker:
            await send(broker, "orders", *map(str, range(4)))
            async with running(broker, bill, timeout="200ms", expiry="drop", concurrency=1) as app:
                try:
                    await until(lambda: app.counts.dropped == 2)
                    await until(lambda: not app.is_ready)
                    reasons = {queue.reason for queue in app.snapshot().groups[0].queues}
                    assert any("handlers that were given up do not end" in (reason or "") for reason in reasons)
                finally:
                    let_go.set()
                await until(lambda: app.is_ready)
                await until(lambda: app.counts.handled + app.counts.dropped == 4)
                await until(lambda: app.counts.late >= 2)
                await until(lambda: "handlers recovered" in [line["event"] for line in lines])

    run(scenario)
