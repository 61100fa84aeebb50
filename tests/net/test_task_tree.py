"""TaskTree: order of the end, errors, and what happens at the edges."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
import structlog

from framework.net import task_tree
from framework.net.task_tree import TaskTree


async def _wait_and_note(number: int, ended: list[int]) -> None:
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        ended.append(number)


def test_children_are_cancelled_in_the_order_of_creation() -> None:
    ended: list[int] = []

    async def story() -> None:
        tree = TaskTree()
        for number in range(20):
            tree.start(_wait_and_note(number, ended), name=f"child {number}")
        await asyncio.sleep(0)
        assert 20 == len(tree)
        await tree.close()
        assert 0 == len(tree)

    asyncio.run(story())

    assert list(range(20)) == ended


def test_an_error_is_reported_once_and_hurts_no_sibling() -> None:
    reports: list[tuple[str, str]] = []

    async def fail() -> None:
        raise ValueError("broken")

    async def story() -> None:
        tree = TaskTree(lambda name, error: reports.append((name, str(error))))
        sibling = tree.start(asyncio.sleep(0.001, "fine"), name="sibling")
        tree.start(fail(), name="failing")
        assert "fine" == await sibling
        await tree.close()

    asyncio.run(story())

    assert [("failing", "broken")] == reports


def test_an_error_that_nobody_asked_for_is_logged_with_its_task() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    async def story() -> None:
        tree = TaskTree()
        tree.start(fail(), name="failing")
        await asyncio.sleep(0)
        await tree.close()

    with structlog.testing.capture_logs() as logs:
        asyncio.run(story())

    assert [("task failed", "failing")] == [(entry["event"], entry["task"]) for entry in logs]


def test_a_child_may_close_its_own_tree() -> None:
    async def story() -> str:
        tree = TaskTree()
        ended: list[int] = []

        async def stop() -> str:
            await tree.close()
            return f"stopped after {ended}"

        tree.start(_wait_and_note(1, ended), name="other")
        stopper = tree.start(stop(), name="stopper")
        return await stopper

    assert "stopped after []" != asyncio.run(story())


def test_a_closed_tree_starts_nothing() -> None:
    ran: list[int] = []

    async def work() -> None:
        ran.append(1)

    async def story() -> bool:
        tree = TaskTree()
        await tree.close()
        task = tree.start(work(), name="late")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return task.cancelled()

    assert asyncio.run(story())
    assert [] == ran


def test_a_cancelled_child_is_no_error() -> None:
    reports: list[str] = []

    async def story() -> str:
        tree = TaskTree(lambda name, _error: reports.append(name))
        task = tree.start(asyncio.sleep(60), name="sleeper")
        picture = repr(tree)
        await asyncio.sleep(0)
        task.cancel()
        await tree.close()
        return picture

    assert "<TaskTree sleeper>" == asyncio.run(story())
    assert [] == reports


def test_a_child_that_swallows_its_cancellation_is_named_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever closes its tree would wait for ever, and with it a stop."""
    monkeypatch.setattr(task_tree, "CLOSE_SECONDS", 0.1)
    free = asyncio.Event()

    async def swallow() -> None:
        while not free.is_set():
            with suppress(asyncio.CancelledError):
                await free.wait()

    async def story() -> None:
        tree = TaskTree()
        task = tree.start(swallow(), name="stubborn")
        await asyncio.sleep(0)
        await tree.close()
        assert not task.done()
        free.set()
        await task

    with structlog.testing.capture_logs() as lines:
        asyncio.run(story())

    (line,) = lines
    assert ("tasks left running", ["stubborn"]) == (line["event"], line["tasks"])
    assert "swallow(net/test_task_tree.py:" in line["places"][0]
