"""Applications of ours inside the test's own process, on a real cluster: one can look at what they are and own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from framework import App
from framework.hooks.host import PluginHost
from framework.ports import World
from framework.settings.schema import AppSettings
from tests.patience import PATIENCE_S, until


def application(
    name_server: str,
    *handlers: Any,
    of_group: Mapping[str, Any] | None = None,
    world: World | None = None,
    plugins: PluginHost | None = None,
    **settings: Any,
) -> App:
    """An application of these handlers; their groups begin at the first message, unless `of_group` says otherwise."""
    groups = {handler.spec.group: {"start": "first", **(of_group or {})} for handler in handlers}
    chosen = AppSettings.model_validate({"cluster": {"name_servers": [name_server]}, "consumers": groups, **settings})
    return App(chosen, handlers, world=world, plugins=plugins or PluginHost(discover=lambda: ()))


@asynccontextmanager
async def running(*apps: App) -> AsyncIterator[None]:
    """They run meanwhile, and are drained at the end."""
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(app.run()) for app in apps]
    try:
        yield
    finally:
        for app in apps:
            await app.stop(drain="5s")
        for task in tasks:
            await task


def owned(app: App, group: str, topic: str) -> list[int]:
    """The numbers of the topic's queues that the application owns."""
    return sorted(
        queue.place.number
        for each in app.snapshot().groups
        if each.group == group
        for queue in each.queues
        if queue.place.topic == topic and not queue.is_retiring
    )


async def seconds_until(holds: Callable[[], object], patience_s: float = PATIENCE_S) -> float:
    """How long it took."""
    began = time.monotonic()
    await until(holds, patience_s=patience_s)
    return time.monotonic() - began
