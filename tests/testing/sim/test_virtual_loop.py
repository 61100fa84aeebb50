"""VirtualLoop: one seed, one order of steps; time jumps; processes die without a word."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from framework.testing.errors import Deadlock, Runaway, SimEscape
from framework.testing.sim.node import CURRENT_NODE, Node
from framework.testing.sim.virtual_loop import POLICIES, Policy, VirtualLoop, run, run_on

all_policies = pytest.mark.parametrize("policy", POLICIES)


async def tick(count: int, pause: float, seen: list[str], name: str) -> None:
    for _ in range(count):
        await asyncio.sleep(pause)
        seen.append(name)


async def tick_together(loop: VirtualLoop) -> list[str]:
    seen: list[str] = []
    tasks = [loop.create_task(tick(5, 1.0, seen, name)) for name in "abcdef"]
    for task in tasks:
        await task
    return seen


def order_of(seed: int, policy: Policy = "shuffle") -> tuple[list[str], str]:
    loop = VirtualLoop(seed, policy=policy)
    return run_on(loop, tick_together(loop)), loop.trace_hash()


def test_time_jumps_to_the_next_timer() -> None:
    async def sleep_a_day(loop: VirtualLoop) -> float:
        await asyncio.sleep(86_400)
        return loop.time()

    assert 86_400 <= run(sleep_a_day) < 86_401


@all_policies
def test_one_seed_gives_one_order(policy: Policy) -> None:
    assert order_of(7, policy) == order_of(7, policy)


@pytest.mark.parametrize("policy", ["shuffle", "pct"])
def test_another_seed_gives_another_order(policy: Policy) -> None:
    assert len({tuple(order_of(seed, policy)[0]) for seed in range(8)}) > 1


def test_fifo_is_the_order_of_the_real_loop() -> None:
    assert list("abcdef") == order_of(3, "fifo")[0][:6]


@all_policies
def test_callbacks_of_one_owner_stay_in_order(policy: Policy) -> None:
    """asyncio documents call_soon as first in, first out, and its streams rely on it."""

    class Owner:
        def __init__(self) -> None:
            self.got: list[int] = []

    async def main(loop: VirtualLoop) -> list[list[int]]:
        owners = [Owner() for _ in range(5)]
        for number in range(20):
            for owner in owners:
                loop.call_soon(owner.got.append, number)
        await asyncio.sleep(1)
        return [owner.got for owner in owners]

    for seed in range(5):
        assert [list(range(20))] * 5 == run(main, seed=seed, policy=policy)


def test_timers_of_one_instant_keep_their_order_of_creation_under_fifo() -> None:
    async def main(loop: VirtualLoop) -> list[int]:
        seen: list[int] = []
        for number in range(50):
            loop.call_at(1.0, seen.append, number)
        await asyncio.sleep(2)
        return seen

    assert list(range(50)) == run(main, policy="fifo")


def test_a_step_costs_time() -> None:
    """So that a timer can fall due while others work."""

    async def main(loop: VirtualLoop) -> float:
        for _ in range(1_000):
            await asyncio.sleep(0)
        return loop.time()

    assert 1_000 * 2e-6 < run(main) < 1_000 * 60e-6


def test_a_deadlock_names_who_waits_where_and_the_seed() -> None:
    async def wait_for_nobody(loop: VirtualLoop) -> None:
        await loop.create_future()

    async def main(loop: VirtualLoop) -> None:
        await loop.create_task(wait_for_nobody(loop), name="billing.pull.3")

    with pytest.raises(Deadlock, match=r"seed 41, shuffle.*billing\.pull\.3 in .*wait_for_nobody \(test_virtual_loop"):
        run(main, seed=41)


def test_a_task_that_spins_ends_the_run() -> None:
    async def main(loop: VirtualLoop) -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    loop = VirtualLoop(steps_max=10_000)
    with pytest.raises(Runaway, match="seed 0"):
        run_on(loop, main(loop))


def test_sets_of_tasks_and_futures_iterate_by_creation() -> None:
    """By address they would differ from process to process; asyncio itself keeps such sets."""

    async def main(loop: VirtualLoop) -> bool:
        tasks = [loop.create_task(asyncio.sleep(1)) for _ in range(60)]
        futures = [loop.create_future() for _ in range(60)]
        for future in futures:
            hash(future)
        numbers = [hash(thing) for thing in (*tasks, *futures)]
        for task in tasks:
            await task
        return numbers == sorted(numbers) and len(set(numbers)) == 120 and max(numbers) < 1_000

    assert run(main)


@pytest.mark.parametrize(
    "reach",
    [
        lambda loop: loop.create_connection(asyncio.Protocol, "127.0.0.1", 1),
        lambda loop: loop.create_server(asyncio.Protocol, "127.0.0.1", 1),
        lambda loop: loop.run_in_executor(None, int),
        lambda loop: loop.add_signal_handler(15, int),
        lambda loop: loop.subprocess_exec(asyncio.SubprocessProtocol, "true"),
        lambda loop: loop.getaddrinfo("localhost", 1),
        lambda loop: loop.sock_connect(None, ("127.0.0.1", 1)),
        lambda loop: loop.add_reader(0, int),
    ],
)
def test_the_outside_is_out_of_reach(reach: Callable[[Any], Any]) -> None:
    async def main(loop: VirtualLoop) -> None:
        reach(loop)

    with pytest.raises(SimEscape, match="a fake"):
        run(main)


def test_another_thread_cannot_schedule() -> None:
    errors: list[BaseException] = []

    async def main(loop: VirtualLoop) -> None:
        def reach() -> None:
            try:
                loop.call_soon_threadsafe(int)
            except SimEscape as error:
                errors.append(error)

        thread = threading.Thread(target=reach)
        thread.start()
        thread.join()

    run(main)
    assert len(errors) == 1


def node(name: str = "a") -> Node:
    return Node(name, host="10.0.0.1", process=1)


def test_a_killed_process_runs_no_further_step_and_no_finally() -> None:
    said: list[str] = []

    async def work() -> None:
        try:
            while True:
                await asyncio.sleep(1)
                said.append("step")
        finally:
            said.append("finally")

    async def main(loop: VirtualLoop) -> list[str]:
        victim = node()
        loop.spawn(victim, work())
        await asyncio.sleep(3.5)
        loop.kill(victim, silently=False)
        await asyncio.sleep(10)
        return list(said)

    assert run(main) == ["step"] * 3


def test_a_stopped_process_goes_on_later_in_its_own_order() -> None:
    async def main(loop: VirtualLoop) -> list[tuple[str, bool]]:
        seen: list[tuple[str, bool]] = []
        frozen = node()

        async def work(name: str, pause: float) -> None:
            await asyncio.sleep(pause)
            seen.append((name, loop.time() >= 10))

        for name, pause in (("before", 0.5), ("c", 3.0), ("b", 2.0), ("d", 4.0), ("after", 11.0)):
            loop.spawn(frozen, work(name, pause))
        await asyncio.sleep(1)
        loop.hold(frozen, 9)
        loop.hold(frozen, 2)
        await asyncio.sleep(20)
        return seen

    expected = [("before", False), ("b", True), ("c", True), ("d", True), ("after", True)]
    assert expected == run(main, policy="fifo")
    assert sorted(expected) == sorted(run(main, seed=5))


def test_what_a_process_starts_belongs_to_it() -> None:
    async def main(loop: VirtualLoop) -> list[Node | None]:
        seen: list[Node | None] = []

        async def child() -> None:
            seen.append(CURRENT_NODE.get())

        async def parent() -> None:
            loop.call_later(1, lambda: seen.append(CURRENT_NODE.get()))
            await loop.create_task(child())

        own = node()
        await loop.spawn(own, parent())
        await asyncio.sleep(2)
        return [own, *seen, CURRENT_NODE.get()]

    own, first, second, outside = run(main)
    assert own is first is second
    assert outside is None


def test_burial_survives_finally_blocks_that_await_and_start_tasks() -> None:
    ended: list[str] = []

    async def stubborn(loop: VirtualLoop) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            loop.create_task(asyncio.sleep(1))
            try:
                await asyncio.sleep(1)
            finally:
                ended.append("inner")

    async def main(loop: VirtualLoop) -> None:
        loop.create_task(stubborn(loop))
        await asyncio.sleep(1)

    run(main)
    assert ended == ["inner"]


def test_what_asyncio_would_only_log_is_kept() -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        loop.call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)
        return [str(complaint["exception"]) for complaint in loop.complaints]

    assert run(main) == ["integer division or modulo by zero"]


def test_a_note_is_part_of_the_trace() -> None:
    async def main(loop: VirtualLoop, fact: str) -> None:
        loop.note("fault", fact)

    hashes = []
    for fact in ("cut", "kill", "cut"):
        loop = VirtualLoop(1)
        run_on(loop, main(loop, fact))
        hashes.append(loop.trace_hash())
    assert hashes[0] == hashes[2] != hashes[1]


def test_timeouts_and_cancellation_work_as_ever() -> None:
    async def main(loop: VirtualLoop) -> tuple[float, str]:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5):
                await loop.create_future()
        task = loop.create_task(asyncio.sleep(50))
        await asyncio.sleep(0)
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError):
            await task
        return loop.time(), "ok"

    when, _ = run(main)
    assert 2.5 <= when < 2.6
