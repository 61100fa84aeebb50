"""Every loop is supervised: it goes on after an error, later and later, and says so."""

from __future__ import annotations

import asyncio

import pytest

from framework.services.supervise import supervised
from tests.services.parts import EvenChance, end, play, play_logged, start, told


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
        await supervised("pull", loop.run, EvenChance())
        return len(loop.started_at)

    assert 1 == play(story)


def test_a_loop_that_fails_is_started_again_later_and_later_and_named_each_time() -> None:
    async def story() -> list[float]:
        loop = Loop(3)
        await supervised("pull orders", loop.run, EvenChance())
        return loop.started_at

    instants, lines = play_logged(story)
    assert [0.0, 0.75, 2.25, 5.25] == [round(instant, 2) for instant in instants]
    assert [
        ("loop failed", "pull orders", 1, 750),
        ("loop failed", "pull orders", 2, 1_500),
        ("loop failed", "pull orders", 3, 3_000),
    ] == told(lines, "loop", "failures", "again_in_ms")
    assert all(line["exc_info"] for line in lines)


@pytest.mark.parametrize("after", [0.5, 100.4])
def test_cancellation_passes_through_at_work_and_while_standing_back(after: float) -> None:
    async def fail_after_a_while() -> None:
        await asyncio.sleep(100)
        raise ValueError("late")

    async def story() -> bool:
        task = start(supervised("pull", fail_after_a_while, EvenChance()))
        await asyncio.sleep(after)
        await end(task)
        return task.cancelled()

    assert play_logged(story)[0]
