"""Concurrent groups: how many handlers run at once, whenever that was said."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from framework.core.retry import decide
from framework.hooks.listeners import NO_LISTENERS
from framework.net.real_world import real_world
from framework.net.task_tree import TaskTree
from framework.runtime.group.concurrent import Concurrent
from framework.settings.consumers import ConsumerSettings


@pytest.mark.parametrize("is_started", [False, True])
@pytest.mark.parametrize("size", [1, 2, 5, 0])
def test_a_changed_size_is_the_number_of_workers(size: int, *, is_started: bool) -> None:
    """Settings may change while an application is on its way up: each place has one worker all the same."""

    async def scenario() -> int:
        handling = SimpleNamespace(batching=None, is_async=True)
        plan: Any = SimpleNamespace(
            name="billing", settings=ConsumerSettings(concurrency=2, timeout=None), expiry=None, listeners=NO_LISTENERS,
            max_retries=16,
        )  # fmt: skip
        tree = TaskTree(on_error=lambda *_: None)
        parts: Any = SimpleNamespace(
            plan=plan, world=real_world(), tree=tree, handlings={"orders": handling}, counts=None,
            cluster=SimpleNamespace(retry_copies=None), reports=SimpleNamespace(lines=None), owned={},
            taken_at_once=lambda _: 1,
        )  # fmt: skip
        pools = Concurrent(parts, decide)
        if is_started:
            pools.start()
        pools.adopt(plan, size)
        if not is_started:
            pools.start()
        for _ in range(50):
            await asyncio.sleep(0)
        employed = sum(task.get_name() == "worker billing" for task in asyncio.all_tasks())
        await tree.close()
        return employed

    assert size == asyncio.run(scenario())
