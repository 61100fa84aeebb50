"""Batches in order: the failed tail is tried again, and what reached its maximum is given up once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from framework.errors import BodyUnavailable
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.outcome import Commit, DeadLetter, Drop, RetryLater, Rollback, Suspend
from framework.services.call.deliver import DeliveryHooks
from tests.services.orderly.order_scene import Q1, Scene, now
from tests.services.parts import play

Seen = list[list[tuple[int, int]]]


def batches(answer: Callable[[Sequence[Message]], object], **how: Any) -> tuple[Scene, Seen]:
    """A scene of one queue, and the batches that its handler saw: (offset, attempt) of each message."""
    seen: Seen = []

    def handle_at_once(messages: Sequence[Message]) -> object:
        seen.append([(message.queue_offset, message.attempt) for message in messages])
        return answer(messages)

    async def handle(messages: Sequence[Message]) -> object:
        return handle_at_once(messages)

    is_async = how.pop("is_async", True)
    scene = Scene(handle if is_async else handle_at_once, is_async=is_async, **({"batch": 10} | how))
    scene.take()
    return scene, seen


def offsets(seen: Seen) -> list[list[int]]:
    return [[offset for offset, _ in each] for each in seen]


@pytest.mark.parametrize("is_async", [True, False])
def test_batches_go_across_pulls_in_order(is_async: bool) -> None:
    async def main() -> None:
        scene, seen = batches(lambda _: None, is_async=is_async, batch=4)
        scene.bring(3, chunks=3)
        await asyncio.sleep(1)
        assert [[0, 1, 2, 3], [4, 5, 6, 7], [8]] == offsets(seen)
        assert (9, 9) == (scene.committable(), scene.counts.handled)

    play(main)


def fifth_fails(say: Callable[[], object]) -> Callable[[Sequence[Message]], object]:
    def answer(messages: Sequence[Message]) -> object:
        return say() if messages[0].queue_offset == 0 else None

    return answer


@pytest.mark.parametrize("say", [lambda: 3, lambda: [None] * 4 + [RetryLater()] + [None] * 5])
@pytest.mark.parametrize("is_async", [True, False])
def test_of_ten_whose_fifth_fails_exactly_the_fifth_to_the_tenth_come_again(
    say: Callable[[], object], is_async: bool
) -> None:
    async def main() -> None:
        scene, seen = batches(fifth_fails(say), is_async=is_async)
        scene.bring(10)
        await asyncio.sleep(0.5)
        assert (4, 4) == (scene.committable(), scene.counts.handled)
        await asyncio.sleep(2)
        assert [[(offset, 1) for offset in range(10)], [(offset, 2) for offset in range(4, 10)]] == seen
        assert (10, 10) == (scene.committable(), scene.counts.handled)

    play(main)


def test_an_error_has_all_of_it_again_after_a_pause() -> None:
    begun: list[float] = []

    def answer(messages: Sequence[Message]) -> None:
        begun.append(now())
        if messages[0].attempt == 1:
            raise ValueError("no")

    async def main() -> None:
        scene, seen = batches(answer)
        scene.bring(2, chunks=2)
        await asyncio.sleep(0.5)
        assert "blocked after 1 attempts: ValueError: no" == scene.orderly.blocked_because(Q1)
        await asyncio.sleep(2)
        assert [[(offset, attempt) for offset in range(4)] for attempt in (1, 2)] == seen

    play(main)
    assert begun[1] - begun[0] >= 1


def test_exactly_what_reached_the_maximum_is_a_dead_letter_and_only_once() -> None:
    """The first two have been tried before the others joined them; Java would send them again at each further try."""

    def answer(messages: Sequence[Message]) -> Suspend | None:
        return Suspend("500ms") if now() < 1.75 else None

    async def main() -> None:
        scene, seen = batches(answer, max_retries=2)
        scene.bring(2)
        await asyncio.sleep(0.75)
        scene.bring(2)
        await asyncio.sleep(5)
        assert [0, 1] == scene.buried
        assert 4 == scene.committable()
        assert [(2, 1), (2, 2)] == [each for batch in seen for each in batch if each[0] == 2][:2]
        assert (2, 2) == (scene.counts.dead_lettered, scene.counts.handled)

    play(main)


def test_what_is_behind_a_dead_letter_ends_when_the_broker_has_it() -> None:
    def answer(messages: Sequence[Message]) -> list[object]:
        ends: dict[int, object] = {1: DeadLetter("nonsense"), 3: Drop("me")}
        return [ends.get(message.queue_offset) for message in messages]

    async def main() -> None:
        scene, seen = batches(answer)
        scene.is_broker_down = True
        scene.bring(6)
        await asyncio.sleep(2)
        assert (1, []) == (scene.committable(), scene.buried)
        scene.is_broker_down = False
        await asyncio.sleep(10)
        assert ([[0, 1, 2, 3, 4, 5]], [1], 6) == (offsets(seen), scene.buried, scene.committable())
        assert (4, 1, 1) == (scene.counts.handled, scene.counts.dropped, scene.counts.dead_lettered)

    play(main)


def test_what_is_tried_again_between_a_dropped_message_and_a_dead_letter_is_not_passed() -> None:
    def answer(messages: Sequence[Message]) -> list[object]:
        ends: dict[int, object] = {1: Drop("me"), 4: DeadLetter("nonsense")}
        if messages[0].queue_offset == 0:
            ends[2] = RetryLater()
        return [ends.get(message.queue_offset) for message in messages]

    async def main() -> None:
        scene, seen = batches(answer)
        scene.bring(6)
        await asyncio.sleep(0.5)
        assert (2, 1) == (scene.committable(), scene.counts.handled)
        await asyncio.sleep(2)
        assert ([[0, 1, 2, 3, 4, 5], [2, 3, 5]], [4], 6) == (offsets(seen), scene.buried, scene.committable())
        assert (4, 1, 1) == (scene.counts.handled, scene.counts.dropped, scene.counts.dead_lettered)

    play(main)


def test_a_batch_waits_for_as_long_as_it_lingers_and_no_longer_than_it_takes_to_fill() -> None:
    begun: list[tuple[float, int]] = []

    def answer(messages: Sequence[Message]) -> None:
        begun.append((now(), len(messages)))

    async def main() -> None:
        scene, _ = batches(answer, batch=4, linger_ms=1_000)
        scene.bring(1)
        await asyncio.sleep(0.5)
        scene.bring(3)
        await asyncio.sleep(0.1)
        assert [4] == [count for _, count in begun], "full: nobody waits"
        scene.bring(2)
        await asyncio.sleep(0.9)
        assert 1 == len(begun)
        await asyncio.sleep(0.5)
        assert (2, 6) == (begun[1][1], scene.committable())

    play(main)


def test_a_batch_may_commit_and_roll_back_by_hand() -> None:
    answers: list[object] = [None, Rollback("10ms"), None, Commit(), None]

    async def main() -> None:
        scene, seen = batches(lambda _: answers.pop(0), batch=2, commits_by_hand=True)
        scene.bring(3, chunks=2)
        await asyncio.sleep(1)
        assert [[0, 1], [2, 3], [0, 1], [2, 3], [4, 5]] == offsets(seen)
        assert 4 == scene.committable()

    play(main)


def test_a_batch_is_of_one_key() -> None:
    async def main() -> None:
        scene, seen = batches(lambda _: None, key_of=lambda message: str(message.queue_offset % 2))
        scene.bring(6)
        await asyncio.sleep(1)
        assert [[0, 2, 4], [1, 3, 5]] == sorted(offsets(seen))
        assert 6 == scene.committable()

    play(main)


def test_a_late_batch_changes_nothing() -> None:
    async def main() -> None:
        async def handle(messages: Sequence[Message]) -> None:
            await asyncio.sleep(5)

        scene = Scene(handle, batch=10)
        scene.take()
        scene.bring(3)
        await asyncio.sleep(1)
        scene.lose()
        await asyncio.sleep(10)
        assert (0, 3) == (scene.counts.handled, scene.late)

    play(main)


def test_nothing_behind_a_message_that_comes_again_unseen_is_handled() -> None:
    """A hook wants the third later: it ends the batch before it, and is the first of the next one."""
    asked: list[int] = []

    def not_yet(delivery: Delivery) -> RetryLater | None:
        asked.append(delivery.message.queue_offset)
        return RetryLater("1s", "not yet") if delivery.message.queue_offset == 2 and asked.count(2) < 3 else None

    async def main() -> None:
        scene, seen = batches(lambda _: None, hooks=DeliveryHooks(before=(not_yet,)))
        scene.bring(5)
        await asyncio.sleep(5)
        assert [[(0, 1), (1, 1)], [(2, 3), (3, 1), (4, 1)]] == seen
        assert (5, 5) == (scene.committable(), scene.counts.handled)

    play(main)


class Locked(Message):
    """A message whose codec is not there yet."""

    is_open = False

    @property
    def body(self) -> bytes:
        if not Locked.is_open:
            raise BodyUnavailable("codec zstd is missing")
        return b"x"


def test_a_message_that_cannot_be_opened_holds_what_is_behind_it_and_uses_no_attempt() -> None:
    asked: list[tuple[int, int]] = []
    seen: list[list[int]] = []

    def note(delivery: Delivery) -> None:
        asked.append((delivery.message.queue_offset, delivery.attempt))

    async def handle(bodies: list[bytes], messages: list[Message]) -> None:
        seen.append([message.queue_offset for message in messages])

    handle_any: Callable[..., Any] = handle

    async def main() -> None:
        scene = Scene(handle_any, batch=4, hooks=DeliveryHooks(before=(note,)))
        scene.take()
        (chunk,) = scene.bring(3)
        cast("list[Message]", chunk.messages)[1] = Locked("stock", queue=Q1, queue_offset=1)
        await asyncio.sleep(3)
        assert ([[0]], 1) == (seen, scene.committable())
        assert "codec zstd is missing" in (scene.orderly.blocked_because(Q1) or "")
        Locked.is_open = True
        await asyncio.sleep(30)
        assert ([[0], [1, 2]], 3) == (seen, scene.committable())

    play(main)
    assert {(0, 1), (1, 1), (2, 1)} == set(asked)
    assert asked.count((1, 1)) > 2
