"""Every loop is supervised: it goes on after an error, later and later, and says so."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from framework.net.task_tree import LoopFailures, TaskTree
from framework.services.supervise import supervise
from tests.services.parts import EvenChance, end, play, play_logged, told


class Loop:
    """Fails so many times, then returns."""

    def __init__(self, failures: int) -> None:
        self._failures = failures
        self.started_at: list[float] = []

    async def run(self) -> None:
        self.started_at.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0)
        if len(self.started_at) <= self._failures:
            raise ValueError(f"failure {len(self.started_at)}")


def test_a_loop_that_returns_has_ended() -> None:
    async def story() -> int:
        loop = Loop(0)
        await supervise(TaskTree(), "pull", loop.run, EvenChance())
        return len(loop.started_at)

    assert 1 == play(story)


def test_a_loop_that_fails_is_started_again_later_and_later_and_named_each_time() -> None:
    async def story() -> list[float]:
        loop = Loop(3)
        await supervise(TaskTree(), "pull orders", loop.run, EvenChance())
        return loop.started_at

    instants, lines = play_logged(story)
    assert [0.0, 0.75, 2.25, 5.25] == [round(instant, 2) for instant in instants]
    assert [
        ("loop failed", "pull orders", 1, 750),
        ("loop failed", "pull orders", 2, 1_500),
        ("loop failed", "pull orders", 3, 3_000),
    ] == told(lines, "loop", "failures", "retry_ms")
    assert all(line["exc_info"] for line in lines)


@pytest.mark.parametrize("after", [0.5, 100.4])
def test_cancellation_passes_through_at_work_and_while_standing_back(after: float) -> None:
    async def fail_after_a_while() -> None:
        await asyncio.sleep(100)
        raise ValueError("late")

    async def story() -> bool:
        task = supervise(TaskTree(), "pull", fail_after_a_while, EvenChance())
        await asyncio.sleep(after)
        await end(task)
        return task.cancelled()

    assert play_logged(story)[0]


def test_failures_are_counted_by_name_and_it_is_known_who_stands_back() -> None:
    async def story() -> list[tuple[float, LoopFailures]]:
        tree, seen = TaskTree(), []
        for count in (1, 2):
            supervise(tree, "worker billing", Loop(count).run, EvenChance())
        for instant in (0.5, 1.0, 4.0):
            await asyncio.sleep(instant - asyncio.get_running_loop().time())
            seen.append((instant, replace(tree.failed_loops["worker billing"])))
        return seen

    assert [
        (0.5, LoopFailures(2, "ValueError: failure 1", 2)),
        (1.0, LoopFailures(3, "ValueError: failure 2", 1)),
        (4.0, LoopFailures(3, "ValueError: failure 2", 0)),
    ] == play(story)


def test_a_loop_that_is_cancelled_stands_back_no_more() -> None:
    async def story() -> int:
        tree = TaskTree()
        supervise(tree, "pull orders", Loop(9).run, EvenChance())
        await asyncio.sleep(0.1)
        assert 1 == tree.failed_loops["pull orders"].standing_back
        await tree.close()
        return tree.failed_loops["pull orders"].standing_back

    assert 0 == play(story)


def test_a_failure_after_a_minute_of_work_is_its_first_again() -> None:
    """Three mistakes in as many weeks must not have a loop wait for half a minute."""

    async def story() -> list[float]:
        failed_at: list[float] = []

        async def work() -> None:
            await asyncio.sleep(61 if len(failed_at) > 1 else 0)
            failed_at.append(asyncio.get_running_loop().time())
            if len(failed_at) < 5:
                raise ValueError("now and then")

        await supervise(TaskTree(), "pull orders", work, EvenChance())
        return failed_at

    instants = play(story)
    assert [0.0, 0.75, 63.25, 125.0, 186.75] == [round(instant, 2) for instant in instants]
