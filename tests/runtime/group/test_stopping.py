"""Stopping from within: a handler asks for the end, ends itself, and is settled. Nobody waits for himself."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
import structlog

from framework import App, Message, Producer, consumer
from framework.broker.server import Broker
from framework.errors import ConfigurationError
from framework.hooks.host import PluginHost
from framework.settings.schema import AppSettings
from tests.patience import until
from tests.runtime.test_app import box, run, running, send


def application(broker: Broker, *handlers: Any, **settings: Any) -> App:
    groups = {handler.spec.group: {"start": "first"} for handler in handlers}
    values = {"cluster": {"name_servers": [broker.address]}, "consumers": groups, "app": {"drain": "1h"}, **settings}
    return App(AppSettings.model_validate(values), handlers, plugins=PluginHost())


async def committed(broker: Broker, handler: Any) -> int:
    """What the next member of the handler's group is not given: how many messages it leaves out."""
    rest: list[str] = []

    @consumer(topic=handler.spec.topic, group=handler.spec.group)
    async def again(message: Message) -> None:
        rest.append(message.body.decode())

    async with running(broker, again) as app:
        await until(lambda: app.is_ready and app.idle_ms() > 0)
        assert app.counts.handled == len(rest)
    return 5 - len(rest)


KINDS: dict[str, dict[str, Any]] = {
    "concurrent": {},
    "orderly": {"orderly": True},
    "by key": {"orderly": "key"},
    "broadcasting": {"broadcasting": True},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
def test_a_handler_that_asks_for_the_end_ends_itself_and_is_settled(kind: str, is_async: bool, tmp_path: Any) -> None:
    async def scenario() -> None:
        seen: list[str] = []

        async def awaited(message: Message, app: App) -> None:
            await app.stop()
            await asyncio.sleep(0.01)  # it is not cut off at the next suspension
            seen.append(message.body.decode())

        def plain(message: Message, app: App) -> None:
            app.stop_soon()
            seen.append(message.body.decode())

        last = consumer(topic="orders", group="billing", **KINDS[kind])(awaited if is_async else plain)
        async with box() as broker:
            await send(broker, "orders", "one")
            app = application(broker, last, broadcasting={"folder": str(tmp_path)})
            await app.run()  # by itself
            assert ["one"] == seen
            assert (1, 0) == (app.counts.handled, app.counts.abandoned)

            again = application(broker, last, broadcasting={"folder": str(tmp_path)})
            task = asyncio.get_running_loop().create_task(again.run())
            await until(lambda: again.idle_ms() > 0)
            await again.stop()
            await task
            assert ["one"] == seen

    run(scenario)


def test_a_batch_asks_for_the_end() -> None:
    async def scenario() -> None:
        @consumer(topic="orders", group="billing", batch=4, linger="10ms")
        async def last(messages: list[Message], app: App) -> None:
            await app.stop()

        async with box() as broker:
            await send(broker, "orders", "one")
            app = application(broker, last)
            await app.run()
        assert (1, 0) == (app.counts.handled, app.counts.abandoned)

    run(scenario)


def test_a_task_of_a_handler_waits_no_more_than_the_handler_would() -> None:
    async def scenario() -> None:
        @consumer(topic="orders", group="billing")
        async def last(message: Message, app: App) -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(app.stop())

        async with box() as broker:
            await send(broker, "orders", "one")
            app = application(broker, last)
            await app.run()
        assert (1, 0) == (app.counts.handled, app.counts.abandoned)

    run(scenario)


def test_a_handler_s_thread_may_run_the_coroutine_itself() -> None:
    async def scenario() -> None:
        @consumer(topic="orders", group="billing")
        def last(message: Message, app: App) -> None:
            asyncio.run(app.stop(drain="1h"))

        async with box() as broker:
            await send(broker, "orders", "one")
            app = application(broker, last)
            await app.run()
        assert (1, 0) == (app.counts.handled, app.counts.abandoned)

    run(scenario)


@pytest.mark.parametrize("how", ["thread", "signal"])
def test_others_may_ask_from_anywhere(how: str) -> None:
    async def scenario() -> None:
        @consumer(topic="orders", group="billing")
        async def bill(message: Message) -> None: ...

        async with box() as broker:
            app = application(broker, bill)
            task = asyncio.get_running_loop().create_task(app.run())
            await until(lambda: app.is_ready)
            if how == "signal":
                before = signal.signal(signal.SIGUSR1, lambda number, frame: app.stop_soon())
                try:
                    os.kill(os.getpid(), signal.SIGUSR1)
                    await task
                finally:
                    signal.signal(signal.SIGUSR1, before)
            else:
                ended: list[bool] = []
                other = threading.Thread(target=lambda: ended.append(asyncio.run(app.stop()) is None))
                other.start()
                await task
                await asyncio.to_thread(other.join)
                assert [True] == ended
        assert 0 == app.counts.abandoned

    run(scenario)


def test_what_others_handle_meanwhile_is_settled_too() -> None:
    """One of five asks for the end while the others run: all that had begun are waited for, and nothing else begins."""

    async def scenario() -> None:
        go, begun = asyncio.Event(), set[str]()

        @consumer(topic="orders", group="billing")
        async def work(message: Message, app: App) -> None:
            begun.add(message.body.decode())
            if message.body == b"4":
                await app.stop()
                go.set()
            await go.wait()

        async with box() as broker:
            await send(broker, "orders", "0", "1", "2", "3", "4")
            app = application(broker, work)
            await app.run()
            assert len(begun) == app.counts.handled
            assert 0 == app.counts.abandoned
            assert app.counts.handled == await committed(broker, work)

    run(scenario)


def test_a_stop_before_the_run_ends_it_as_soon_as_it_began() -> None:
    async def scenario() -> None:
        @consumer(topic="orders", group="billing")
        async def bill(message: Message) -> None: ...

        async with box() as broker:
            app = application(broker, bill)
            app.stop_soon()
            await app.run()
            await app.stop()  # it has ended: there is nothing to wait for

    run(scenario)


def test_an_application_runs_once() -> None:
    """What it has told its resources, its pools and its brokers is not taken back: a second life is another one's."""

    async def scenario() -> None:
        @consumer(topic="orders", group="billing")
        async def bill(message: Message) -> None: ...

        async with box() as broker:
            app = application(broker, bill)
            running = asyncio.get_running_loop().create_task(app.run())
            await until(lambda: app.is_ready)
            with pytest.raises(ConfigurationError, match="has already run; an App runs once: make another one"):
                await app.run()
            assert app.is_ready, "the first one goes on"
            await app.stop()
            await running
            with pytest.raises(ConfigurationError, match="an App runs once"):
                await app.run()

    run(scenario)


def test_a_start_that_waits_for_a_broker_waits_no_longer() -> None:
    async def scenario() -> None:
        @consumer(topic="orders", group="billing")
        async def bill(message: Message) -> None: ...

        async with box() as broker:
            address = broker.address
        settings = {"cluster": {"name_servers": [address], "wait_broker": "1h", "request_timeout": "200ms"}}
        app = App(AppSettings.model_validate(settings), [bill], plugins=PluginHost())
        task = asyncio.get_running_loop().create_task(app.run())
        await asyncio.sleep(0)
        await app.stop()
        await task

    run(scenario)


def test_a_resource_is_given_the_application_too() -> None:
    async def scenario() -> None:
        from framework import resource

        @resource
        def producer(app: App) -> Callable[[], Producer]:
            return lambda: Producer(cluster=app.cluster)

        @consumer(topic="orders", group="billing")
        async def bill(message: Message, producer: Callable[[], Producer], app: App) -> None:
            await producer().send("bills", message.body)
            await app.stop()

        async with box() as broker:
            await send(broker, "orders", "one")
            app = application(broker, bill)
            await app.run()
        assert (1, 0) == (app.counts.handled, app.counts.abandoned)

    run(scenario)


def test_a_hand_over_that_fails_in_a_way_nobody_thought_of_keeps_nobody_from_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        seen: list[str] = []

        @consumer(topic="orders", group="billing")
        async def bill(message: Message) -> None:
            seen.append(message.body.decode())

        async def break_off(_: object) -> bool:
            raise ValueError("a store's mistake")

        async with box() as broker:
            await send(broker, "orders", "1")
            app = application(broker, bill)
            task = asyncio.get_running_loop().create_task(app.run())
            await until(lambda: seen)
            (group,) = app._groups
            monkeypatch.setattr(group._commits, "flush", break_off)
            with structlog.testing.capture_logs() as lines:
                await app.stop(drain="1h")
                await task
            assert not group.owned
            assert "queue handover failed" in {line["event"] for line in lines}

    run(scenario)
