"""`run --workers 2` on a real cluster: a drain repeats nothing, and a worker that is killed is replaced."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.cluster import Addresses
from tests.interop.effects import Worker
from tests.interop.java_peer import JavaPeer
from tests.interop.processes import Nursery
from tests.patience import wait_until

pytestmark = pytest.mark.interop

COUNT = 2_000
WORKERS = ("--workers", "2")
QUEUES = 8


def shared(worker: Worker) -> bool:
    """Whether each of the two has come to its half."""
    return worker.application.said().count(f"members=2 owned={QUEUES // 2}") >= 2


def places(*workers: Worker) -> set[tuple[int, int]]:
    return {effect.place for worker in workers for effect in worker.effects()}


def test_a_drain_of_two_workers_repeats_nothing(
    cluster: Addresses, java: JavaPeer, new_topic: Callable[..., str], nursery: Nursery, tmp_path: Path
) -> None:
    """SIGTERM mid-stream; whoever goes on afterwards begins behind what was handled, in every queue."""
    topic = new_topic(queues=QUEUES)
    first = Worker(
        nursery, tmp_path / "first", cluster.name_server, topic, pause_s=0.05, concurrency=4, options=WORKERS
    )
    wait_until(lambda: shared(first), "both workers have queues", 90)
    java.fill(cluster.name_server, topic, COUNT, batch=25)
    wait_until(lambda: first.count >= COUNT // 8, "some messages", 90, pause_s=0.01)
    ended = first.stop()
    left = first.count

    assert 0 == ended.code
    assert {"event": "stopped", "handled": left, "retried": 0, "dead_lettered": 0, "abandoned": 0} == ended.events[-1]
    assert left < COUNT, "it was stopped mid-stream"
    second = Worker(nursery, tmp_path / "second", cluster.name_server, topic, concurrency=16)
    wait_until(lambda: len(places(first, second)) == COUNT, "every message", 90)
    assert 0 == second.stop().code
    assert COUNT == first.count + second.count


def test_a_worker_that_is_killed_is_replaced_and_nothing_is_lost(
    cluster: Addresses, java: JavaPeer, new_topic: Callable[..., str], nursery: Nursery, tmp_path: Path
) -> None:
    topic = new_topic(queues=QUEUES)
    both = Worker(nursery, tmp_path / "both", cluster.name_server, topic, concurrency=4, options=WORKERS)
    wait_until(lambda: shared(both), "both workers have queues", 90)
    java.fill(cluster.name_server, topic, COUNT, batch=25)
    wait_until(lambda: both.count >= COUNT // 8, "some messages", 90, pause_s=0.01)
    before = both.application.workers
    os.kill(before[0], signal.SIGKILL)

    def is_replaced() -> bool:
        now = both.application.workers
        return len(now) == len(before) and before[0] not in now

    wait_until(is_replaced, "another worker")
    wait_until(lambda: len(places(both)) == COUNT, "every message", 120)
    ended = both.stop()
    assert 0 == ended.code
    assert "child restarted" in both.application.said()
    assert 0 == ended.events[-1]["abandoned"]
