"""A step that never returns is named instead of hanging the run."""

from __future__ import annotations

import itertools
import threading

import pytest

from framework.testing.sim.virtual_loop import VirtualLoop, run
from tests.simulation.stuck_step import StuckStep, watched


async def hang(loop: VirtualLoop) -> None:
    try:
        for _ in itertools.count():
            pass
    except Exception:  # noqa: BLE001  # as user code has it
        pytest.fail("a handler's own except clause swallowed it")


def test_the_place_is_named() -> None:
    with pytest.raises(StuckStep, match=r"0\.05s of processor time; now in hang \(.*test_stuck_step"), watched(0.05):
        run(hang)


def test_what_ends_in_time_is_left_alone() -> None:
    with watched(60):
        assert 3 == sum(range(3))


def test_other_threads_are_not_watched() -> None:
    seen: list[int] = []

    def work() -> None:
        with watched(0.001):
            seen.append(sum(range(200_000)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert 1 == len(seen)
