"""Orderly queues whose offsets move by hand: once a Commit, back to the last one at a Rollback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from framework.model.message import Message
from framework.model.outcome import Commit, DeadLetter, Drop, Outcome, Rollback
from tests.services.orderly.order_scene import Q1, Scene, now
from tests.services.parts import play, play_logged, told
from tests.simulation.left_out import left_out

Answer = Callable[[Message], Outcome | Commit | Rollback | None]


def by_hand(answer: Answer, *, is_async: bool = True, max_retries: int = 100) -> tuple[Scene, list[tuple[int, int]]]:
    """A scene of one queue, and what its handler saw: (offset, attempt)."""
    seen: list[tuple[int, int]] = []

    async def handle(message: Message) -> object:
        return handle_at_once(message)

    def handle_at_once(message: Message) -> object:
        seen.append((message.queue_offset, message.attempt))
        return answer(message)

    scene = Scene(
        handle if is_async else handle_at_once, is_async=is_async, commits_by_hand=True, max_retries=max_retries
    )
    scene.take()
    return scene, seen


@pytest.mark.parametrize("is_async", [True, False])
def test_the_offset_moves_with_a_commit_and_not_before(is_async: bool) -> None:
    committed: list[int] = []

    scenes: list[Scene] = []

    def answer(message: Message) -> Commit | None:
        committed.append(scenes[0].committable())
        return Commit() if message.queue_offset % 4 == 3 else None

    async def main() -> None:
        scene, seen = by_hand(answer, is_async=is_async)
        scenes.append(scene)
        scene.bring(3, chunks=5)
        await asyncio.sleep(1)
        assert [(offset, 1) for offset in range(15)] == seen
        assert (12, 15) == (scene.committable(), scene.counts.handled)
        assert 3 == next(iter(scene.desk().lanes)).uncommitted

    play(main)
    assert [offset - offset % 4 for offset in range(15)] == committed


@pytest.mark.parametrize("is_async", [True, False])
def test_a_rollback_has_everything_since_the_last_commit_again_in_order(is_async: bool) -> None:
    rolled: list[float] = []

    def answer(message: Message) -> Commit | Rollback | None:
        if message.queue_offset == 2:
            return Commit()
        if message.queue_offset == 7 and len(rolled) < 2:
            rolled.append(now())
            return Rollback("2s", "the ledger is closed")
        return Commit() if message.queue_offset == 8 else None

    async def main() -> None:
        scene, seen = by_hand(answer, is_async=is_async)
        scene.bring(3, chunks=3)
        await asyncio.sleep(1)
        assert 3 == scene.committable()
        assert "rolled back: the ledger is closed" in str(scene.orderly.blocked_because(Q1))
        await asyncio.sleep(10)
        assert [*range(8), *range(3, 8), *range(3, 9)] == [offset for offset, _ in seen]
        assert {1} == {attempt for _, attempt in seen}, "a rollback is no attempt"
        assert (9, 2) == (scene.committable(), scene.counts.retried)

    play(main)
    assert rolled[1] - rolled[0] >= 2


def test_a_message_that_fails_is_tried_again_alone_and_what_is_before_it_stays_handled() -> None:
    def answer(message: Message) -> Commit | None:
        if message.queue_offset == 1 and message.attempt < 3:
            raise ValueError("no")
        return Commit() if message.queue_offset == 3 else None

    async def main() -> None:
        scene, seen = by_hand(answer)
        scene.bring(4)
        await asyncio.sleep(1.5)
        assert 0 == scene.committable()
        await asyncio.sleep(5)
        assert [(0, 1), (1, 1), (1, 2), (1, 3), (2, 1), (3, 1)] == seen
        assert 4 == scene.committable()

    play(main)


@pytest.mark.parametrize("end", [DeadLetter("nonsense"), Drop("me")])
def test_what_ended_for_good_is_not_delivered_again_by_a_rollback(end: Outcome) -> None:
    rolled: list[int] = []

    def answer(message: Message) -> Outcome | Commit | Rollback | None:
        if message.queue_offset == 1:
            return end
        if message.queue_offset == 3 and not rolled:
            rolled.append(3)
            return Rollback()
        return Commit() if message.queue_offset == 4 else None

    async def main() -> None:
        scene, seen = by_hand(answer)
        scene.bring(5)
        await asyncio.sleep(5)
        assert [0, 1, 2, 3, 0, 2, 3, 4] == [offset for offset, _ in seen]
        assert 5 == scene.committable()
        assert ([1] if isinstance(end, DeadLetter) else []) == scene.buried, "one copy"

    play(main)


def test_at_the_maximum_exactly_that_message_is_a_dead_letter() -> None:
    def answer(message: Message) -> Commit | None:
        if message.queue_offset == 1:
            raise ValueError("no")
        return Commit() if message.queue_offset == 2 else None

    async def main() -> None:
        scene, seen = by_hand(answer, max_retries=1)
        scene.bring(3)
        await asyncio.sleep(5)
        assert ([1], 3) == (scene.buried, scene.committable())
        assert [(0, 1), (1, 1), (1, 2), (2, 1)] == seen

    play(main)


def test_a_commit_while_the_queue_is_given_back_counts() -> None:
    async def handle(message: Message) -> Commit | None:
        if message.queue_offset < 4:
            return None
        await asyncio.sleep(5)
        return Commit()

    async def main() -> None:
        scene = Scene(handle, commits_by_hand=True)
        pull = scene.take()
        scene.bring(3, chunks=3)
        await asyncio.sleep(1)
        pull.flow.revoke()
        assert await pull.quiet.wait(now() + 30)
        assert 5 == scene.committable()

    play(main)


def test_a_commit_after_the_lease_changes_nothing() -> None:
    async def handle(message: Message) -> Commit | None:
        if message.queue_offset == 0:
            return None
        await asyncio.sleep(30)
        return Commit()

    async def main() -> None:
        scene = Scene(handle, commits_by_hand=True)
        scene.take()
        scene.bring(3)
        await asyncio.sleep(1)
        scene.lose()
        scene.lock()
        await asyncio.sleep(40)
        assert (0, 1) == (scene.committable(), scene.late)

    play(main)


def test_a_window_full_of_what_nobody_commits_is_named_once() -> None:
    async def main() -> str | None:
        scene, seen = by_hand(lambda _: None)
        scene.bring(11, chunks=100)
        await asyncio.sleep(5)
        assert 1_100 == len(seen)
        return scene.orderly.blocked_because(Q1)

    reason, lines = play_logged(main)
    why = "1100 messages were handled and none is committed; the handler must return Commit()"
    assert f"nothing of a full window can start: {why}" == reason
    assert [("queue held", why)] == told(lines, "reason")


def test_without_the_safeguard_it_would_move_before() -> None:
    """So that the mutant is one."""

    async def main() -> int:
        scene, _ = by_hand(lambda _: None)
        scene.bring(4)
        await asyncio.sleep(1)
        return scene.committable()

    with left_out("offsets wait for the commit"):
        assert 4 == play(main)
    assert 0 == play(main)
