"""A stop that nobody confirms: what was handled and comes again is counted, whatever kind the group is of."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from framework import App, Message, consumer
from framework.broker.server import Broker
from framework.hooks.host import PluginHost
from framework.net.real_world import real_world
from framework.settings.schema import AppSettings
from tests.patience import until
from tests.runtime.test_app import run, send

KINDS: dict[str, dict[str, Any]] = {
    "concurrent": {},
    "orderly": {"orderly": True},
    "by key": {"orderly": "key"},
    "batches": {"batch": 4},
}


def application(broker: Broker, handler: Any, folder: Path, **group: Any) -> App:
    values = {
        "app": {"drain": "1m"},
        "cluster": {"name_servers": [broker.address]},
        "consumers": {handler.spec.group: {"start": "first", **group}},
        "broadcasting": {"folder": str(folder / "here"), "name": "one"},
        "progress": {"folder": str(folder / "progress")},
    }
    return App(AppSettings.model_validate(values), [handler], plugins=PluginHost())


class Held:
    """A handler that has handled some messages, and is held in the last ones until it is let go."""

    def __init__(self, last: int, **options: Any) -> None:
        self.began = 0
        self.release = asyncio.Event()

        async def one(message: Message) -> None:
            self.began += 1
            if int(message.body) >= last:
                await self.release.wait()

        async def several(messages: list[Message]) -> None:
            for message in messages:
                await one(message)

        self.consumer = consumer(topic="orders", group="billing", **options)(several if "batch" in options else one)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_broker_that_died_did_not_confirm_is_counted(kind: str, tmp_path: Path) -> None:
    """The broker is gone before the handler ends, so that nothing could be told of the end; then it is stopped."""

    async def scenario() -> None:
        broker = Broker(real_world(), data=None)
        await broker.start()
        await send(broker, "orders", "1")
        held = Held(0, **KINDS[kind])
        app = application(broker, held.consumer, tmp_path)
        task = asyncio.get_running_loop().create_task(app.run())
        await until(lambda: held.began)
        await broker.stop()
        await asyncio.sleep(0.1)  # the connection's end arrives; an orderly group has lost its lock by then
        held.release.set()
        await until(lambda: app.counts.handled + app.counts.late)
        app.stop_soon()
        counts = await task
        assert (1, 0) == (counts.unconfirmed, counts.abandoned)
        assert [1] == [group.unconfirmed for group in app.snapshot().groups]

    run(scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_that_was_confirmed_counts_nothing(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = Broker(real_world(), data=None)
        await broker.start()
        await send(broker, "orders", *map(str, range(20)))
        held = Held(100, **KINDS[kind])
        app = application(broker, held.consumer, tmp_path)
        task = asyncio.get_running_loop().create_task(app.run())
        await until(lambda: app.counts.handled == 20)
        await app.stop()
        counts = await task
        await broker.stop()
        assert (20, 0, 0) == (counts.handled, counts.unconfirmed, counts.abandoned)

    run(scenario)


def test_what_broadcasting_could_not_write_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its offsets are this machine's: what had been saved before the disk was full does not come again."""

    async def scenario() -> None:
        broker = Broker(real_world(), data=None)
        await broker.start()
        await send(broker, "orders", *map(str, range(20)))
        held = Held(1000, broadcasting=True)
        app = application(broker, held.consumer, tmp_path)
        replace = app.world.files.replace
        is_full = False

        def filling(path: str, content: bytes) -> None:
            if is_full:
                raise OSError(28, "No space left on device")
            replace(path, content)

        monkeypatch.setattr(type(app.world.files), "replace", staticmethod(filling))
        task = asyncio.get_running_loop().create_task(app.run())
        await until(lambda: app.counts.handled == 20)
        (group,) = app._groups
        offsets = group.kind.files
        assert offsets is not None
        await until(lambda: sum(max(offsets.stored(queue), 0) for queue in group.owned) == 20)
        is_full = True
        await send(broker, "orders", "20", "21", "22")
        await until(lambda: app.counts.handled == 23)
        await app.stop()
        counts = await task
        await broker.stop()
        assert (23, 3, 0) == (counts.handled, counts.unconfirmed, counts.abandoned)

    run(scenario)


@pytest.mark.parametrize(("expected", "progress"), [(3, "none"), (0, "local"), (3, "failing")])
def test_what_ended_above_one_that_never_does_comes_again_unless_a_record_says_so(
    expected: int, progress: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        broker = Broker(real_world(), data=None)
        await broker.start()
        await send_to_one_queue(broker, "9", "1", "2", "3")
        held = Held(9)
        app = application(broker, held.consumer, tmp_path, progress="local" if progress == "failing" else progress)
        task = asyncio.get_running_loop().create_task(app.run())
        await until(lambda: held.began == 4 and app.snapshot().groups[0].queues)
        await until(lambda: sum(queue.running for queue in app.snapshot().groups[0].queues) == 1)
        if progress == "failing":
            (group,) = app._groups

            async def fails(*_: object) -> None:
                raise OSError(28, "No space left on device")

            monkeypatch.setattr(type(group.progress._shared.store), "write", fails)  # type: ignore[union-attr]
        await app.stop(drain="50ms")
        counts = await task
        await broker.stop()
        assert (expected, 1) == (counts.unconfirmed, counts.abandoned)

    run(scenario)


async def send_to_one_queue(broker: Broker, *bodies: str) -> None:
    from framework import Producer

    async with Producer(name_servers=[broker.address]) as producer:
        first = await producer.send("orders", bodies[0].encode())
        for body in bodies[1:]:
            await producer.send(Message("orders", body.encode()), queue=first.queue)
