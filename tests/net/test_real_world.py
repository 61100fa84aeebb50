"""The real ports: clocks, threads, files, identity. The network is tried by the tests of channel, pool and TLS."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from framework.net import real_world as module
from framework.net.real_world import real_world
from tests.patience import PATIENCE_S, soon


def test_the_monotonic_clock_is_the_event_loop_s() -> None:
    world = real_world()

    async def story() -> list[float]:
        loop = asyncio.get_running_loop()
        return [loop.time(), world.clock.monotonic(), loop.time()]

    found = asyncio.run(story())
    assert sorted(found) == found
    assert world.clock.monotonic is time.monotonic
    assert time.time_ns() // 1_000_000 <= world.clock.now_ms() <= time.time_ns() // 1_000_000
    assert int(time.monotonic() * 1000) <= world.clock.monotonic_ms() <= time.monotonic() * 1000


def test_a_job_that_raises_what_no_future_carries_is_told_of_all_the_same() -> None:
    """`next()` of an empty iterator, in a handler that publishes: its worker would wait for ever."""

    async def story() -> None:
        with pytest.raises(RuntimeError, match="StopIteration"):
            await real_world().workers.run(lambda: next(iter(())))

    asyncio.run(soon(story(), "the job's end"))


def test_a_job_runs_on_a_thread_and_its_end_is_told_on_the_loop() -> None:
    world = real_world()
    here = threading.get_ident()

    async def story() -> tuple[int | None, int, int]:
        told: asyncio.Future[tuple[int | None, int]] = asyncio.get_running_loop().create_future()
        world.workers.submit(
            threading.get_ident, lambda result, _error: told.set_result((result, threading.get_ident()))
        )
        ran_on, told_on = await told
        soon: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        await world.workers.run(lambda: world.workers.call_soon(lambda: soon.set_result(threading.get_ident())))
        return ran_on, told_on, await soon

    ran_on, told_on, soon_on = asyncio.run(story())

    assert here != ran_on
    assert here == told_on == soon_on


def test_jobs_never_queue_behind_one_another() -> None:
    """Forty that all wait for the last one: any limit on threads would hang here."""
    world = real_world()
    barrier = threading.Barrier(40)

    async def story() -> int:
        return len(
            [await future for future in [world.workers.run(lambda: barrier.wait(PATIENCE_S)) for _ in range(40)]]
        )

    assert 40 == asyncio.run(story())


def test_a_thread_serves_again_and_ends_when_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "THREAD_IDLE_SECONDS", 0.001)
    workers = module.RealWorkers()
    threads: list[threading.Thread] = []

    async def story() -> None:
        for _ in range(3):
            await workers.run(lambda: threads.append(threading.current_thread()))

    asyncio.run(story())
    for thread in threads:
        thread.join(PATIENCE_S)

    assert not any(thread.is_alive() for thread in threads)


def test_an_error_of_a_job_reaches_who_awaits_it() -> None:
    world = real_world()

    def fail() -> None:
        raise ValueError("broken")

    async def story() -> None:
        await world.workers.run(fail)

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(story())


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    files = real_world().files
    path = str(tmp_path / "offsets.json")

    assert files.read(path) is None
    files.replace(path, b"one")
    files.replace(path, b"two")

    assert b"two" == files.read(path)
    assert ["offsets.json"] == [entry.name for entry in tmp_path.iterdir()]


def test_chance_and_identity_answer_in_their_ranges() -> None:
    world = real_world()

    assert all(0 <= world.chance.below(3) < 3 for _ in range(50))
    assert 0 <= world.chance.random() < 1
    assert 16 == len(world.chance.token(16))
    assert world.identity.host
    assert world.identity.process > 0


def test_a_job_that_outlives_its_loop_tells_nobody_and_ends() -> None:
    """A handler that runs on when the process leaves: its thread must not die of it."""
    workers = module.RealWorkers()
    may_end, ended = threading.Event(), threading.Event()

    def job() -> None:
        may_end.wait(PATIENCE_S)

    async def story() -> None:
        workers.submit(job, lambda result, error: None)

    asyncio.run(story())
    may_end.set()

    async def next_story() -> None:
        await workers.run(ended.set)

    asyncio.run(next_story())

    assert ended.is_set()


def test_a_result_that_nobody_waits_for_any_more_is_dropped() -> None:
    world = real_world()

    async def story() -> bool:
        may_end = threading.Event()
        future = asyncio.get_running_loop().create_task(_wait_for(world.workers.run(lambda: may_end.wait(PATIENCE_S))))
        await asyncio.sleep(0)
        future.cancel()
        await asyncio.sleep(0)
        may_end.set()
        await world.workers.run(lambda: None)
        return future.cancelled()

    assert asyncio.run(story())


async def _wait_for(awaitable: object) -> None:
    await awaitable  # type: ignore[misc]  # an Awaitable by its port


def test_a_machine_without_a_route_is_known_by_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoRoute:
        def __init__(self, *_: object) -> None:
            raise OSError(101, "Network is unreachable")

    monkeypatch.setattr("framework.net.real_world.socket.socket", NoRoute)

    assert "127.0.0.1" == module.RealIdentity().host


def test_a_port_for_which_there_are_no_files_left_says_so() -> None:
    """asyncio itself makes a server without a socket then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened: list[int] = []

    async def story() -> None:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, soft), hard))
            while True:
                try:
                    opened.append(os.open(os.devnull, os.O_RDONLY))
                except OSError:
                    break
            await real_world().network.listen(Mock, "127.0.0.1", 0)
        finally:
            for each in opened:
                os.close(each)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    with pytest.raises(OSError, match="Too many open files"):
        asyncio.run(story())


def test_a_turn_reads_no_more_of_a_connection_than_a_processor_s_cache_holds_until_it_is_handled() -> None:
    """With asyncio's own 256 KiB a message of a thousand queues took a quarter longer."""

    class Owner(asyncio.Protocol):
        def __init__(self) -> None:
            self.sizes: list[int] = []
            self.is_over = asyncio.Event()

        def data_received(self, data: bytes) -> None:
            self.sizes.append(len(data))

        def connection_lost(self, error: Exception | None) -> None:
            self.is_over.set()

    async def story() -> list[int]:
        async def write(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"x" * (2 << 20))
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(write, "127.0.0.1", 0)
        owner = Owner()
        await real_world().network.connect(owner, *server.sockets[0].getsockname()[:2])
        await owner.is_over.wait()
        server.close()
        await server.wait_closed()
        return owner.sizes

    sizes = asyncio.run(story())
    assert 2 << 20 == sum(sizes)
    assert max(sizes) <= module.READ_BYTES < 256 * 1024
