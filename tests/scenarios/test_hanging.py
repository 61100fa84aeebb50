"""Plain handlers that hang, in virtual time: however they are run, as many hang at once as the group promises."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest

from framework.testing import Harness
from framework.testing.sim.world import SimWorkers
from tests.patience import PATIENCE_S
from tests.runtime.group.test_hanging import COUNT, WAYS, Hanging, Way
from tests.scenarios.test_breaker import inside, of


class Parked(Hanging):
    """Threads of the simulation are real ones here, one of which runs while the loop stands still, or the loop does: a
    function that hangs gives the turn back, and has it again when it is let go.
    """

    def __init__(self) -> None:
        super().__init__()
        self._turns = threading.local()
        self._parked: list[Callable[[], None]] = []
        self._at_once = SimWorkers._run

    def run(self, workers: SimWorkers, job: Callable[[], Any], done: Callable[..., None]) -> None:
        """In place of `SimWorkers._run`. The broker's database stays with the thread that opened it."""
        if workers._node.name.startswith("broker"):
            self._at_once(workers, job, done)
            return
        context, loop = copy_context(), asyncio.get_running_loop()
        mine, loops = threading.Semaphore(0), threading.Semaphore(0)
        ended: list[tuple[Any, BaseException | None]] = []

        def go_on() -> None:
            mine.release()
            assert loops.acquire(timeout=PATIENCE_S), "a thread of the simulation waits for something real"
            if ended:
                done(*ended.pop())

        def serve() -> None:
            self._turns.now = mine, loops, go_on
            mine.acquire()
            try:
                ended.append((context.run(job), None))
            except BaseException as error:  # noqa: BLE001 - as threads do
                ended.append((None, error))
            loops.release()

        threading.Thread(target=serve, daemon=True).start()
        loop.call_soon(go_on)

    def hang(self) -> None:
        self.begun += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        if not self.let_go.is_set():
            mine, loops, go_on = self._turns.now
            self._parked.append(go_on)
            loops.release()
            mine.acquire()
        self.at_once -= 1

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self.let_go.set()
        for go_on in self._parked:
            loop.call_soon(go_on)


@pytest.mark.parametrize("way", WAYS)
def test_as_many_hang_at_once_as_promised(way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it = Parked()

    def run(workers: SimWorkers, job: Callable[[], Any], done: Callable[..., None]) -> None:
        it.run(workers, job, done)

    monkeypatch.setattr(SimWorkers, "_run", run)
    settings = {"timeout": "1m", "expiry": "drop", "concurrency": 2, "max_retries": 16, "start": "first"}
    with Harness(way(it), settings={"consumers": {"billing": settings}}) as desk:
        for number in range(COUNT):
            desk.send("orders", str(number))

        def shown() -> tuple[int, int, bool]:
            return it.at_once, desk.snapshot().groups[0].hanging, desk.snapshot().is_ready

        desk.sleep("30s")
        assert 2 == it.at_once
        desk.sleep("3m")
        assert (4, 2, False) == shown()
        inside(desk, lambda: of(desk).resize("billing", 3))
        desk.sleep("3m")
        assert (6, 3, False) == shown()
        inside(desk, lambda: of(desk).resize("billing", 1))
        desk.sleep("3m")
        assert (6, 1, False) == shown()
        it.open(desk._cluster.loop)
        desk.sleep("1m")
        assert (0, 0, True) == shown()
        assert desk.snapshot().groups[0].late >= 6
    assert 6 == it.most, "nothing began while no place was left"
