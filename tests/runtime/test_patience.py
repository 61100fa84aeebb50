"""`wait_broker` bounds the whole start, and what needs a home directory names its key."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from framework import App, Message, consumer
from framework.errors import BrokerUnreachable, ConfigurationError
from framework.hooks.host import PluginHost
from framework.settings.schema import AppSettings
from framework.testing import Harness
from tests.patience import until
from tests.runtime.test_app import box, run


@consumer(topic="orders", group="billing")
async def bill(message: Message) -> None: ...


def application(handler: Any, **values: Any) -> App:
    return App(AppSettings.model_validate(values), [handler], plugins=PluginHost())


def test_a_name_server_that_is_silent_is_given_up_in_time() -> None:
    """Each of the start's questions may wait for an answer as long as the whole start may."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        silent_one = {"name_servers": [f"{host}:{port}"], "wait_broker": "500ms", "request_timeout": "1h"}
        app = application(bill, cluster=silent_one)
        began = loop.time()
        with pytest.raises(BrokerUnreachable, match="within 500ms"):
            await app.run()
        server.close()
        assert loop.time() - began >= 0.5

    run(scenario)


def test_what_a_start_waits_for_on_purpose_does_not_count() -> None:
    def impatient(app: App) -> None:
        cluster = app.settings.cluster.model_copy(update={"wait_broker": 1_000})
        app.settings = app.settings.model_copy(update={"cluster": cluster})

    desk = Harness(bill, settings={"app": {"start_jitter": "50s"}})
    desk._cluster.on_app = impatient
    with desk:
        assert desk.now > 2


@consumer(topic="orders", group="billing", once="30m")
async def once(message: Message) -> None: ...


@consumer(topic="orders", group="billing", broadcasting=True)
async def everywhere(message: Message) -> None: ...


@pytest.mark.parametrize(
    ("key", "handler", "group"),
    [
        ("progress.folder", bill, {"progress": "local"}),
        ("once.folder", once, {"once_store": "sqlite"}),
        ("broadcasting.folder", everywhere, {}),
        ("", bill, {"progress": "topic"}),
        ("", bill, {}),
        ("", once, {}),
    ],
)
def test_without_a_home_directory_the_key_that_needs_one_is_named(
    key: str, handler: Any, group: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)

    async def scenario() -> None:
        async with box() as broker:
            app = application(handler, cluster={"name_servers": [broker.address]}, consumers={"billing": group})
            if key:
                with pytest.raises(ConfigurationError, match=key.replace(".", r"\.") + ".*write an absolute path"):
                    await app.run()
                return
            task = asyncio.get_running_loop().create_task(app.run())
            await until(lambda: app.is_ready or task.done())
            await app.stop()
            await task

    run(scenario)
