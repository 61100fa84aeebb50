"""An application within another program: whether it is ready, and what its producers say when it is not there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from framework import App, Message, Producer, consumer, resource, transaction_check
from framework.errors import BrokerUnreachable, FrameworkError
from framework.hooks.host import PluginHost
from framework.mistakes import WrongMoment
from framework.settings.schema import AppSettings
from tests.net.memory import virtually
from tests.patience import soon, until
from tests.runtime.test_app import box, run

NOWHERE = "127.0.0.1:1"


@resource
async def till() -> None:
    raise OSError("no till")


@consumer("orders", "billing")
async def bill(order: Message) -> None: ...


@consumer("orders", "billing")
async def needs_a_till(order: Message, till: None) -> None: ...


@transaction_check("desk")
def ended(message: Message) -> str:
    return "unknown"


def app_at(address: str, *handlers: Any, **cluster: Any) -> App:
    settings = {"app": {"name": "shop"}, "cluster": {"name_servers": [address], **cluster}}
    return App(AppSettings.model_validate(settings), handlers or [bill], plugins=PluginHost(discover=list))


def background(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.get_running_loop().create_task(work)


def test_started_returns_when_the_application_is_ready() -> None:
    async def scenario() -> None:
        async with box() as broker:
            app = app_at(broker.address)
            running = background(app.run())
            await soon(app.started(), "a start")
            assert app.is_ready
            await app.started()
            await app.stop()
            await running
            with pytest.raises(WrongMoment, match="application 'shop' has stopped; an App runs once: make another one"):
                await app.started()

    run(scenario)


def test_started_raises_what_the_start_failed_with() -> None:
    async def scenario() -> None:
        async with box() as broker:
            app = app_at(broker.address, needs_a_till)
            running = background(app.run())
            with pytest.raises(WrongMoment, match=r"'shop' has failed: ResourceFailed: .*no till") as caught:
                await soon(app.started(), "the end of a start")
            with pytest.raises(FrameworkError) as failure:
                await running
            assert failure.value is caught.value.__cause__

    run(scenario)


def test_started_says_what_is_missing_where_it_takes_too_long() -> None:
    async def scenario() -> None:
        app = app_at(NOWHERE)
        running = background(app.run())
        with pytest.raises(BrokerUnreachable, match=r"'shop' is running, and not ready after 0.2 s: .*heartbeat"):
            await app.started(within="200ms")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        with pytest.raises(WrongMoment, match=r"'shop' has failed: its run\(\) was cancelled"):
            await app.started()

    run(scenario)


def test_started_of_one_that_nobody_runs_says_what_to_write() -> None:
    async def scenario() -> None:
        with pytest.raises(WrongMoment, match=r"'shop' has not started: `await app.run\(\)` in a task"):
            await app_at(NOWHERE).started()

    virtually(scenario)


WAYS: dict[str, Callable[[Producer], Any]] = {
    "send": lambda producer: producer.send("orders", "x"),
    "send_one_way": lambda producer: producer.send_one_way("orders", "x"),
    "send_batch": lambda producer: producer.send_batch([Message("orders", "x")]),
    "request": lambda producer: producer.request("orders", "x"),
    "recall": lambda producer: producer.recall("x"),
    "queue_of": lambda producer: producer.queue_of("orders", "key"),
    "start": lambda producer: producer.start(),
}


async def refused(producer: Producer, state: str) -> None:
    for name, way in WAYS.items():
        with pytest.raises(WrongMoment, match=rf"Producer\.{name}: application 'shop' {state}"):
            await way(producer)
    with pytest.raises(WrongMoment, match=rf"Producer\.transaction: application 'shop' {state}"):
        producer.transaction(Message("orders", "x"))


def test_a_producer_over_an_application_that_has_stopped_says_so() -> None:
    """It raised a bare CancelledError, which no `except Exception` catches."""

    async def scenario() -> None:
        async with box() as broker:
            app = app_at(broker.address)
            running = background(app.run())
            await soon(app.started(), "a start")
            used, unused = Producer(cluster=app.cluster), Producer(cluster=app.cluster, check=ended)
            lingering = Producer(cluster=app.cluster, linger="10s")
            await used.send("orders", "x")
            waiting = background(lingering.send("orders", "x", timeout="10m"))
            await until(lambda: lingering._accumulator is not None)
            await app.stop()
            await running
            for producer in (used, unused, Producer(cluster=app.cluster)):
                await refused(producer, "has stopped; an App runs once")
            with pytest.raises(WrongMoment, match="application 'shop' has stopped"):
                await app.publisher.send("orders", "x")
            await lingering.stop()
            with pytest.raises(FrameworkError):
                await waiting

    run(scenario)


def test_so_does_one_over_an_application_whose_start_failed() -> None:
    async def scenario() -> None:
        async with box() as broker:
            app = app_at(broker.address, needs_a_till)
            with pytest.raises(FrameworkError, match="no till"):
                await app.run()
            await refused(Producer(cluster=app.cluster), "has failed: ResourceFailed: .*no till")
            with pytest.raises(WrongMoment, match="has failed"):
                await app.publisher.send("orders", "x")

    run(scenario)


def test_before_the_run_a_producer_has_nothing_to_send_over_and_says_what_to_wait_for() -> None:
    async def scenario() -> None:
        app = app_at(NOWHERE)
        with pytest.raises(FrameworkError, match=r"app\.cluster is None .* so `await app\.started\(\)`"):
            Producer(cluster=app.cluster)
        with pytest.raises(WrongMoment, match=r"App\.publisher: application 'shop' has not started"):
            await app.publisher.send("orders", "x")

    run(scenario)


def test_a_send_that_is_under_way_when_the_application_ends_is_an_error_of_ours() -> None:
    """The name server does not answer: its answer is waited for in a task of the application's."""

    async def scenario() -> None:
        async with silent() as address:
            app = app_at(address)
            running = background(app.run())
            await until(lambda: app.cluster is not None)
            sending = background(Producer(cluster=app.cluster).send("orders", "x", timeout="10m"))
            asking = background(Producer(cluster=app.cluster).queue_of("orders", "key"))
            await asyncio.sleep(0)
            running.cancel()
            for each in (sending, asking):
                with pytest.raises(FrameworkError):
                    await each
            await asyncio.gather(running, return_exceptions=True)

    run(scenario)


class silent:  # noqa: N801 - a context manager, as `box`
    """A peer that takes connections and says nothing."""

    async def __aenter__(self) -> str:
        self._open: list[asyncio.StreamWriter] = []
        self._server = await asyncio.start_server(lambda _, writer: self._open.append(writer), "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *error: object) -> None:
        for writer in self._open:
            writer.close()
        self._server.close()
        await self._server.wait_closed()


# Beside what serves requests


def test_it_is_ready_in_its_lifespan_and_drained_behind_it() -> None:
    handled: list[bytes] = []

    @consumer("orders", "billing")
    async def slowly(order: Message) -> None:
        await asyncio.sleep(0.2)
        handled.append(order.body)

    async def scenario() -> None:
        async with box() as broker:
            app = app_at(broker.address, slowly)
            async with app.lifespan("a web application"):
                assert app.is_ready
                await app.publisher.send("orders", {"number": 1})
                await until(lambda: app.snapshot().groups[0].running)
            assert [b'{"number":1}'] == handled
            assert 0 == app.counts.abandoned
            with pytest.raises(WrongMoment, match="an App runs once"):
                async with app.lifespan():
                    pytest.fail("it has run")

    run(scenario)


def test_a_start_that_fails_fails_the_server_s() -> None:
    async def scenario() -> None:
        async with box() as broker:
            with pytest.raises(WrongMoment, match="no till"):
                async with app_at(broker.address, needs_a_till).lifespan():
                    pytest.fail("it has not started")

    run(scenario)


def test_what_it_fails_with_meanwhile_is_raised_when_the_server_ends() -> None:
    async def scenario() -> None:
        async with box() as broker:
            app = app_at(broker.address)
            app._membership.leave = fails  # type: ignore[method-assign]  # as a disk would, in a stop

            async def serve() -> None:
                async with app.lifespan():
                    app.stop_soon()
                    await until(lambda: app.snapshot().phase == "stopped")

            with pytest.raises(OSError, match="disk"):
                await serve()

    async def fails() -> None:
        raise OSError("disk")

    run(scenario)


def test_an_error_of_the_server_s_passes_and_the_application_is_drained_all_the_same() -> None:
    async def scenario() -> None:
        async with box() as broker:
            app = app_at(broker.address)

            async def serve() -> None:
                async with app.lifespan():
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await serve()
            assert "stopped" == app.snapshot().phase
            with pytest.raises(WrongMoment, match="has stopped; an App runs once"):
                await app.started()

    run(scenario)
