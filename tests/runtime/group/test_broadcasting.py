"""Broadcasting groups, with the real runtime and the broker in the box."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from framework import App, DeadLetter, Delivery, Message, RetryLater, Suspend, consumer
from framework.broker.server import Broker
from framework.errors import ConfigurationError
from framework.hooks.host import PluginHost
from framework.settings.schema import AppSettings
from tests.patience import until
from tests.runtime.test_app import box, run, send
from tests.simulation import broker_view


def settings_for(broker: Broker, folder: Path, name: str = "one", **group: Any) -> AppSettings:
    return AppSettings.model_validate(
        {
            "cluster": {"name_servers": [broker.address]},
            "consumers": {"cache": {"start": "first", **group}},
            "broadcasting": {"folder": str(folder), "name": name},
        }
    )


@asynccontextmanager
async def running(settings: AppSettings, *handlers: Any) -> AsyncIterator[App]:
    app = App(settings, handlers, plugins=PluginHost())
    task = asyncio.get_running_loop().create_task(app.run())
    try:
        yield app
    finally:
        await app.stop(drain="1m")
        await task


def noting(seen: list[bytes], **options: Any) -> Any:
    @consumer(topic="prices", group="cache", broadcasting=True, **options)
    async def note(message: Message) -> None:
        seen.append(message.body)

    return note


@pytest.mark.parametrize("orderly", [False, True])
def test_every_process_is_given_every_message_and_goes_on_where_it_was(tmp_path: Path, orderly: bool) -> None:
    async def scenario() -> None:
        one: list[bytes] = []
        two: list[bytes] = []
        async with box() as broker:
            await send(broker, "prices", *map(str, range(40)))
            first, second = settings_for(broker, tmp_path), settings_for(broker, tmp_path, "two")
            async with (
                running(first, noting(one, orderly=orderly)) as app,
                running(second, noting(two, orderly=orderly)),
            ):
                await until(lambda: len(one) == len(two) == 40)
                (group,) = app.snapshot().groups
                assert (True, 4) == (group.is_broadcasting, len(group.queues)), "all queues, and no retry topic"
                (node,) = broker.nodes
                found = node.members.find("cache")
                assert found is not None
                assert ("BROADCASTING", ["prices"]) == (found.message_model, list(found.wanted))
            one.clear()
            await send(broker, "prices", "new")
            async with running(first, noting(one, orderly=orderly)) as app:
                await until(lambda: b"new" in one and app.idle_ms() > 50)
            assert [b"new"] == one, "it begins at its own file's offsets"
            assert not broker.nodes[0].offsets.topics_of("cache"), "the broker is told none"

    run(scenario)


@pytest.mark.parametrize("is_async", [True, False])
def test_what_fails_is_tried_in_place_and_then_dropped_and_named(tmp_path: Path, is_async: bool) -> None:
    async def scenario() -> None:
        tries: list[tuple[bytes, int]] = []

        def outcome(delivery: Delivery) -> object:
            body = delivery.message.body
            tries.append((body, delivery.attempt))
            match body:
                case b"raises":
                    raise ValueError("broken")
                case b"later" if delivery.attempt == 1:
                    return RetryLater("10ms")
                case b"suspend":
                    return Suspend("10ms")
                case b"dead":
                    return DeadLetter("of no use")
                case _:
                    return None

        async def awaited(delivery: Delivery) -> object:
            return outcome(delivery)

        handler: Any = consumer(topic="prices", group="cache", broadcasting=True)(awaited if is_async else outcome)
        async with box() as broker:
            await send(broker, "prices", "raises", "later", "suspend", "dead", "good")
            async with running(settings_for(broker, tmp_path, max_retries=2), handler) as app:
                await until(lambda: app.counts.handled == 2 and app.counts.dropped == 3)
                assert (5, 0) == (app.counts.retried, app.counts.dead_lettered)
                await until(lambda: app.idle_ms() > 20)
            assert [1, 2, 3] == [attempt for body, attempt in tries if body == b"raises"]
            assert [1, 2] == [attempt for body, attempt in tries if body == b"later"]
            assert [1, 2, 3] == [attempt for body, attempt in tries if body == b"suspend"]
            assert [1] == [attempt for body, attempt in tries if body == b"dead"]
            assert [] == broker_view.copies(broker, ["cache"]), "neither retries nor dead letters"

    with capture_logs() as lines:
        run(scenario)
    dropped = [(line["attempt"], line["reason"]) for line in lines if line["event"] == "message dropped"]
    assert [(1, "of no use"), (3, "Suspend"), (3, "ValueError: broken")] == sorted(dropped)


def test_a_try_that_fails_while_the_application_stops_holds_up_nobody(tmp_path: Path) -> None:
    """It is delivered again at the next start; the drain limit is for handlers that run."""

    async def scenario() -> None:
        again, go = asyncio.Event(), asyncio.Event()

        @consumer(topic="prices", group="cache", broadcasting=True)
        async def fail(delivery: Delivery) -> RetryLater:
            if delivery.attempt == 2:
                again.set()
                await go.wait()
            return RetryLater("10ms")

        async with box() as broker:
            await send(broker, "prices", "bad")
            app = App(settings_for(broker, tmp_path, max_retries=3), (fail,), plugins=PluginHost())
            task = asyncio.get_running_loop().create_task(app.run())
            await again.wait()
            app.stop_soon(drain="10m")
            await until(lambda: any(queue.state == "retiring" for queue in app.snapshot().groups[0].queues))
            go.set()
            await task

    run(scenario)


def test_an_orderly_one_keeps_its_place_and_drops_at_the_maximum(tmp_path: Path) -> None:
    async def scenario() -> None:
        tries: list[tuple[bytes, int]] = []

        @consumer(topic="prices", group="cache", broadcasting=True, orderly=True)
        async def note(delivery: Delivery) -> object:
            tries.append((delivery.message.body, delivery.attempt))
            return Suspend("10ms") if delivery.message.body == b"bad" else None

        async with box() as broker:
            await send(broker, "prices", "a", "b", "c", "d", "bad", "f", "g", "h", "behind")
            async with running(settings_for(broker, tmp_path, max_retries=1), note) as app:
                await until(lambda: app.counts.handled == 8)
            assert (1, 1, 0) == (app.counts.dropped, app.counts.retried, app.counts.dead_lettered)
            assert [(b"bad", 1), (b"bad", 2), (b"behind", 1)] == [
                each for each in tries if each[0] in {b"bad", b"behind"}
            ]

    run(scenario)


def test_a_second_process_on_the_same_file_does_not_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with box() as broker:
            settings = settings_for(broker, tmp_path)
            async with running(settings, noting([])) as app:
                await until(lambda: app.is_ready)
                with pytest.raises(ConfigurationError, match="another process keeps its offsets"):
                    await App(settings, [noting([])], plugins=PluginHost()).run()
                sibling = App(settings, [noting([])], plugins=PluginHost())
                sibling.worker = 1
                running_it = asyncio.get_running_loop().create_task(sibling.run())
                await until(lambda: sibling.is_ready)
                await sibling.stop()
                await running_it

    run(scenario)
    assert {"one", "one.1"} == {each.name for each in tmp_path.iterdir()}


def test_a_group_is_one_or_the_other_and_divides_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with box() as broker:

            @consumer(topic="orders", group="cache")
            async def shared(message: Message) -> None: ...

            with pytest.raises(ConfigurationError, match=r"'cache' is broadcasting for 'note' .* and not for 'shared'"):
                await App(settings_for(broker, tmp_path), [noting([]), shared], plugins=PluginHost()).run()
            settings = settings_for(broker, tmp_path, allocation="sticky")
            with pytest.raises(ConfigurationError, match="a broadcasting group do not divide queues; remove it"):
                await App(settings, [noting([])], plugins=PluginHost()).run()

    run(scenario)
