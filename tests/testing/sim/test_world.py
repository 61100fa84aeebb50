"""SimWorld and SimDisk: clocks, chance, workers, files and databases of one simulated process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from framework.ports import World
from framework.testing.sim.disk import SimDisk
from framework.testing.sim.network import SimNetwork
from framework.testing.sim.node import Node
from framework.testing.sim.virtual_loop import VirtualLoop, run
from framework.testing.sim.world import WALL_CLOCK_START_MS, sim_world
from tests.simulation.cut_disk import CHECKPOINT_COMMITS, CutDisk

T = TypeVar("T")


def in_world(look: Callable[[VirtualLoop, World, Node], T], seed: int = 0) -> T:
    async def main(loop: VirtualLoop) -> T:
        node = Node("a", host="10.0.0.7", process=4711)
        return look(loop, sim_world(SimNetwork(loop), node, SimDisk()), node)

    return run(main, seed=seed)


def test_the_wall_clock_may_step_and_the_other_cannot() -> None:
    def look(loop: VirtualLoop, world: World, node: Node) -> None:
        before, monotonic = world.clock.now_ms(), world.clock.monotonic_ms()
        node.skew_ms -= 3_600_000

        assert before - 3_600_000 == world.clock.now_ms()
        assert monotonic == world.clock.monotonic_ms() == int(world.clock.monotonic() * 1000)
        assert before >= WALL_CLOCK_START_MS

    in_world(look)


def test_chance_repeats_with_the_seed_and_differs_between_processes() -> None:
    def draw(loop: VirtualLoop, world: World, node: Node) -> tuple[float, int, bytes, bytes]:
        other = sim_world(SimNetwork(loop), Node("a", host="10.0.0.7", process=4712), SimDisk())
        assert 8 == len(world.chance.token(8))
        assert b"" == world.chance.token(0)
        return world.chance.random(), world.chance.below(1000), world.chance.token(4), other.chance.token(4)

    first, again, elsewhere = in_world(draw), in_world(draw), in_world(draw, seed=1)
    assert first == again != elsewhere
    assert first[2] != first[3]


def test_identity_is_the_node() -> None:
    def look(loop: VirtualLoop, world: World, node: Node) -> None:
        assert ("10.0.0.7", 4711) == (world.identity.host, world.identity.process)

    in_world(look)


def test_workers_run_jobs_later_and_in_no_certain_order() -> None:
    orders = set()
    for seed in range(12):

        async def main(loop: VirtualLoop) -> tuple[int, ...]:
            world = sim_world(SimNetwork(loop), Node("a", host="10.0.0.7", process=1), SimDisk())
            seen: list[int] = []
            for number in range(4):
                world.workers.submit(lambda number=number: number, lambda got, _: seen.append(got or 0))  # type: ignore[misc]
            assert not seen
            assert 42 == await world.workers.run(lambda: 42)
            with pytest.raises(ZeroDivisionError):
                await world.workers.run(lambda: 1 // 0)
            world.workers.call_soon(lambda: seen.append(99))
            await asyncio.sleep(1)
            return tuple(seen)

        order = run(main, seed=seed)
        assert [0, 1, 2, 3, 99] == sorted(order)
        orders.add(order)
    assert len(orders) > 3


def test_a_job_of_a_dead_process_is_never_run() -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        node = Node("a", host="10.0.0.7", process=1)
        world = sim_world(SimNetwork(loop), node, SimDisk())
        seen: list[str] = []

        async def ask() -> None:
            world.workers.submit(lambda: seen.append("ran"), lambda _, __: seen.append("told"))

        await loop.spawn(node, ask())
        loop.kill(node, silently=False)
        await asyncio.sleep(1)
        return seen

    assert [] == run(main)


def test_files_are_there_after_anything() -> None:
    disk = CutDisk()
    assert disk.read("offsets.json") is None
    disk.replace("offsets.json", b"{}")
    disk.crash()
    disk.power_cut()
    assert b"{}" == disk.read("offsets.json")


def rows(disk: SimDisk) -> list[int]:
    return [row[0] for row in disk.open_database("broker").execute("SELECT x FROM t ORDER BY x")]


def database(synchronous: str) -> CutDisk:
    disk = CutDisk()
    connection = disk.open_database("broker")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("CREATE TABLE t (x INTEGER)")
    for number in (1, 2):
        put(disk, number)
    return disk


def put(disk: SimDisk, number: int, *, commit: bool = True) -> None:
    connection = disk.open_database("broker")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO t VALUES (?)", (number,))
    if commit:
        connection.execute("COMMIT")


@pytest.mark.parametrize("synchronous", ["FULL", "NORMAL"])
def test_a_crash_keeps_every_commit_and_nothing_else(synchronous: str) -> None:
    disk = database(synchronous)
    put(disk, 3, commit=False)
    disk.open_database("broker").close()

    assert 1 == disk.crash()
    assert [1, 2] == rows(disk)


def test_a_power_cut_keeps_every_synced_commit() -> None:
    disk = database("FULL")
    put(disk, 3, commit=False)

    assert 1 == disk.power_cut()
    assert [1, 2] == rows(disk)


def test_a_power_cut_undoes_commits_that_nobody_synced() -> None:
    disk = database("NORMAL")
    assert 2 == disk.power_cut()
    assert [] == rows(disk)


def test_a_checkpoint_syncs_what_came_before() -> None:
    disk = database("NORMAL")
    for number in range(3, 3 + CHECKPOINT_COMMITS):
        put(disk, number)

    assert 2 == disk.power_cut()
    assert list(range(1, CHECKPOINT_COMMITS + 1)) == rows(disk)
    disk.close()
