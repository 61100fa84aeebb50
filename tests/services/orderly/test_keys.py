"""Order by key: lanes inside one queue under its lease; what fails holds its key and no other."""

from __future__ import annotations

import asyncio

import pytest

from framework.core.window import FlowLimits
from framework.model.message import SHARDING_KEY, Message
from framework.model.outcome import DeadLetter, Suspend
from framework.services.orderly.desk import contained, sharding_key
from tests.services.orderly.order_scene import Q1, Scene, now
from tests.services.parts import play, play_logged, told
from tests.simulation.left_out import left_out


def key_of(message: Message) -> str:
    return f"k{message.queue_offset % 4}"


@pytest.mark.parametrize("is_async", [True, False])
def test_each_key_is_in_order_and_a_failing_one_holds_no_other(is_async: bool) -> None:
    seen: dict[str, list[tuple[int, int]]] = {}

    def handle_at_once(message: Message) -> Suspend | None:
        seen.setdefault(key_of(message), []).append((message.queue_offset, message.attempt))
        return Suspend("2s") if message.queue_offset == 5 and message.attempt < 3 else None

    async def handle(message: Message) -> Suspend | None:
        await asyncio.sleep(0.01)
        return handle_at_once(message)

    async def main() -> None:
        scene = Scene(handle if is_async else handle_at_once, is_async=is_async, key_of=key_of)
        scene.take()
        scene.bring(10, chunks=2)
        await asyncio.sleep(1)
        assert (5, 15 + 1) == (scene.committable(), scene.counts.handled)
        assert "1 of 1 keys blocked, 'k1' the longest: blocked after 1 attempts" in str(
            scene.orderly.blocked_because(Q1)
        )
        await asyncio.sleep(5)
        assert (20, 20) == (scene.committable(), scene.counts.handled)
        assert scene.orderly.blocked_because(Q1) is None
        assert 0 == len(scene.desk().lanes), "a lane is there while it has messages"

    play(main)
    assert [(1, 1), (5, 1), (5, 2), (5, 3), (9, 1), (13, 1), (17, 1)] == seen.pop("k1")
    assert {f"k{key}": [(offset, 1) for offset in range(key, 20, 4)] for key in (0, 2, 3)} == seen


def test_keys_of_one_queue_run_beside_each_other_up_to_the_group_s_concurrency() -> None:
    at_work: list[str] = []
    most: list[int] = []

    async def handle(message: Message) -> None:
        assert key_of(message) not in at_work
        at_work.append(key_of(message))
        most.append(len(at_work))
        await asyncio.sleep(1)
        at_work.remove(key_of(message))

    async def main() -> None:
        scene = Scene(handle, size=3, key_of=key_of)
        scene.take()
        scene.bring(12)
        await asyncio.sleep(1.5)
        assert 3 == scene.orderly.runs(scene.pulls[Q1].flow.window)
        await asyncio.sleep(10)
        assert 12 == scene.committable()

    play(main)
    assert 3 == max(most)


def test_blocked_keys_that_hold_the_whole_window_hold_the_queue_and_are_named() -> None:
    async def handle(message: Message) -> Suspend | None:
        return Suspend("1s") if key_of(message) in {"k0", "k1"} and now() < 60 else None

    async def main() -> list[str | None]:
        scene = Scene(handle, key_of=key_of, flow_limits=FlowLimits(messages_max=20))
        scene.take()
        scene.bring(24)
        reasons = []
        for _ in range(20):
            await asyncio.sleep(5)
            scene.lock()
            reasons.append(scene.orderly.blocked_because(Q1))
        assert 24 == scene.committable()
        return reasons

    reasons, lines = play_logged(main)
    assert str(reasons[0]).startswith("nothing of a full window can start: 2 of 2 keys blocked, 'k0' the longest")
    assert reasons[-1] is None
    (held,) = [line for line in lines if line["event"] == "queue held"]
    assert str(held["reason"]).startswith("2 of 2 keys blocked, 'k0' the longest: blocked after 1 attempts: suspended")
    assert [("queue blocked", "k0"), ("queue blocked", "k1")] == told(lines, "key")


def test_a_lost_lease_stops_starts_at_once_and_late_results_change_nothing() -> None:
    started: list[int] = []

    async def handle(message: Message) -> None:
        started.append(message.queue_offset)
        await asyncio.sleep(5)

    async def main() -> None:
        scene = Scene(handle, size=2, key_of=key_of)
        scene.take()
        scene.bring(8)
        await asyncio.sleep(1)
        scene.lose()
        await asyncio.sleep(10)
        assert ([0, 1], 2, 0) == (started, scene.late, scene.counts.handled)
        assert not scene.orderly.is_busy(Q1)
        assert 0 == len(scene.desk().lanes)

    play(main)


def test_a_key_whose_handler_still_runs_from_a_lost_lease_waits_for_it_and_others_do_not() -> None:
    at_work: list[str] = []
    ran: list[tuple[float, int]] = []

    async def handle(message: Message) -> None:
        assert key_of(message) not in at_work
        at_work.append(key_of(message))
        ran.append((now(), message.queue_offset))
        await asyncio.sleep(5 if message.queue_offset == 0 else 0.1)
        at_work.remove(key_of(message))

    async def main() -> None:
        scene = Scene(handle, key_of=key_of)
        scene.take()
        scene.bring(2)
        await asyncio.sleep(1)
        scene.lose()
        scene.lock()
        scene.bring(4)
        await asyncio.sleep(20)
        assert (4, 1) == (scene.committable(), scene.late)

    play(main)
    again = {offset: at for at, offset in ran[2:]}
    assert again[0] >= 5
    assert max(again[1], again[2], again[3]) < 2


def test_a_dead_letter_ends_its_message_alone() -> None:
    async def handle(message: Message) -> DeadLetter | None:
        return DeadLetter("nonsense") if message.queue_offset == 1 else None

    async def main() -> None:
        scene = Scene(handle, key_of=key_of)
        scene.take()
        scene.bring(8)
        await asyncio.sleep(1)
        assert ([1], 8, 7) == (scene.buried, scene.committable(), scene.counts.handled)

    play(main)


def order_of_one_key() -> list[int]:
    seen: list[int] = []

    async def handle(message: Message) -> Suspend | None:
        if message.queue_offset == 0 and message.attempt == 1:
            return Suspend("1s")
        seen.append(message.queue_offset)
        return None

    async def main() -> None:
        scene = Scene(handle, key_of=lambda _: "same")
        scene.take()
        scene.bring(2, chunks=2)
        await asyncio.sleep(5)

    play(main)
    return seen


def test_the_same_key_is_in_order_whatever_chunk_it_came_in() -> None:
    assert [0, 1, 2, 3] == order_of_one_key()


def test_without_the_safeguard_it_would_not_be() -> None:
    """So that the mutant is one."""
    with left_out("a key is in one line at a time"):
        assert [2, 3, 0, 1] == order_of_one_key()


def test_a_key_is_the_sharding_key_or_what_a_function_says() -> None:
    message = Message("stock", b"17", properties={SHARDING_KEY: "shelf-1"}, queue=Q1, queue_offset=3)
    bare = Message("stock", b"", queue=Q1, queue_offset=4)

    async def main() -> list[str]:
        by_function = contained(lambda each: int(each.body) or None, "inventory")
        return [sharding_key(message), sharding_key(bare), by_function(message), by_function(bare)]

    keys, lines = play_logged(main)
    assert ["shelf-1", "", "17", ""] == keys
    ((event, offset, reason),) = told(lines, "offset", "reason")
    assert ("key not found", 4) == (event, offset)
    assert "ValueError: invalid literal" in str(reason)
