"""Exits: what stands around a call where a parent counts which messages end processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence

import pytest

from framework.core.results import Result
from framework.model.message import Message
from framework.model.outcome import RetryLater
from framework.services.call import exits
from framework.services.call.exits import ExitGuard, ExitWatch
from framework.services.call.notes import EndsSoFar, Note, Notes, key_of_place, shared_memory


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exits, "HEARD_SECONDS", 0)


@pytest.fixture
def sides() -> Iterator[tuple[Notes, Notes]]:
    """The process's notes, and its parent's."""
    memory = shared_memory()
    own, parents = Notes(memory), Notes(memory)
    os.close(memory)
    yield own, parents
    own.close()
    parents.close()


def message(name: str, attempt: int = 1) -> Message:
    """Each attempt of a message lies in another place."""
    return Message("orders", b"x", properties={"UNIQ_KEY": name}, attempt=attempt, queue_offset=ord(name[0]) + attempt)


def place_of(name: str) -> str:
    return key_of_place("billing", message(name).queue, message(name).queue_offset)


def guard(notes: Notes, policy: str = "dead_letter", max_retries: int = 1) -> ExitGuard:
    return ExitGuard(ExitWatch(notes), "billing", "shop.py:3", policy, max_retries)


def test_what_runs_is_noted_for_the_parent_and_forgotten_when_it_has_returned(sides: tuple[Notes, Notes]) -> None:
    own, parents = sides
    seen: list[str] = []

    def bill(message: Message) -> None:
        seen.extend(str(note) for note in parents.in_hand())
        if message.message_id == "bad":
            raise ValueError

    call = guard(own).call(bill, is_async=False)
    call(message("a"))
    with pytest.raises(ValueError):
        call(message("bad"))
    assert [f"{place_of(name)} shop.py:3" for name in ("a", "bad")] == seen
    assert [] == parents.in_hand()


def test_one_that_was_in_hand_at_an_end_has_a_name_from_then_on(sides: tuple[Notes, Notes]) -> None:
    own, parents = sides
    seen: list[tuple[str, ...]] = []
    call = guard(own).call(lambda _: seen.extend(each.keys for each in parents.in_hand()), is_async=False)

    parents.accuse({place_of("a"): EndsSoFar(1, 0)})
    call(message("a"))
    call(message("b"))
    parents.accuse({"billing a": EndsSoFar(2, 1)})
    call(message("a", 2))
    assert [(place_of("a"), "billing a"), (place_of("b"),)] == seen[:2]
    assert "billing a" in seen[2], "a copy is known by it, wherever it lies"


def test_one_that_comes_again_from_another_place_has_a_name_at_once(sides: tuple[Notes, Notes]) -> None:
    own, parents = sides
    popped = ExitGuard(ExitWatch(own), "billing", "shop.py:3", "retry", 1, moves=True)
    seen: list[Note] = []
    call = popped.call(lambda _: seen.extend(parents.in_hand()), is_async=False)

    call(message("a", 2))
    assert [("a", 2)] == [(each.message_id, each.attempt) for each in seen]


def test_of_one_that_exits_nothing_else_is_accused(sides: tuple[Notes, Notes]) -> None:
    own, parents = sides

    def leave(_: Message) -> None:
        raise SystemExit

    queue = message("innocent").queue
    own.begin(own.place("billing", "shop.py:3", queue), 7)
    with pytest.raises(SystemExit):
        guard(own).call(leave, is_async=False)(message("guilty"))
    assert [message("guilty").queue_offset] == [each.offset for each in parents.in_hand()]


@pytest.mark.parametrize("is_async", [False, True])
def test_from_the_third_end_on_an_attempt_is_not_run_again(sides: tuple[Notes, Notes], *, is_async: bool) -> None:
    own, parents = sides
    ran: list[int] = []

    async def bill(message: Message) -> None:
        ran.append(message.attempt)

    call = guard(own).call(bill if is_async else lambda message: ran.append(message.attempt), is_async=is_async)

    def called(attempt: int) -> object:
        async def awaited() -> object:
            return await call(message("a", attempt))

        return asyncio.run(awaited()) if is_async else call(message("a", attempt))

    parents.accuse({"billing a": EndsSoFar(2, 1)})
    assert called(1) is None
    parents.accuse({"billing a": EndsSoFar(3, 1)})
    failed = called(1)
    assert isinstance(failed, Result)
    assert isinstance(failed.outcome, RetryLater)
    assert "3 processes ended" in failed.outcome.reason
    assert called(2) is None, "the next attempt is"
    assert [1, 2] == ran


def test_behind_the_limit_the_policy_retry_runs_it_again(sides: tuple[Notes, Notes]) -> None:
    own, parents = sides
    parents.accuse({"billing a": EndsSoFar(4, 2)})

    def bill(_: Message) -> None:
        return

    assert isinstance(guard(own).call(bill, is_async=False)(message("a", 2)), Result)
    assert guard(own, "retry").call(bill, is_async=False)(message("a", 2)) is None
    assert isinstance(guard(own, "retry", 2).call(bill, is_async=False)(message("a", 2)), Result)


def test_accused_messages_are_batches_of_their_own(sides: tuple[Notes, Notes]) -> None:
    own, parents = sides
    batches: list[list[str]] = []
    alone: list[str] = []

    def bill(messages: Sequence[Message]) -> None:
        batches.append([each.message_id for each in messages])
        alone.extend(note.message_id for note in parents.in_hand() if note.is_alone)

    parents.accuse({"billing c": EndsSoFar(2, 1), "billing e": EndsSoFar(3, 1)})
    call = guard(own).many(bill, is_async=False, is_orderly=False)
    results = call([message(name) for name in "abcdef"])
    assert [["a", "b"], ["c"], ["d"], ["f"]] == batches
    assert ["c"] == alone, "as its parent is told, should it end the process"
    assert [None] * 4 == results[:4]
    assert isinstance(results[4], Result)
    assert results[5] is None
    assert [] == parents.in_hand()


def test_in_order_nothing_behind_one_that_failed_is_run(sides: tuple[Notes, Notes]) -> None:
    own, parents = sides
    batches: list[list[str]] = []

    def bill(messages: Sequence[Message]) -> None:
        batches.append([each.message_id for each in messages])

    parents.accuse({"billing b": EndsSoFar(3, 1)})
    results = guard(own).many(bill, is_async=False, is_orderly=True)([message(name) for name in "abc"])
    assert [["a"]] == batches
    assert 2 == len(results)


def test_more_than_there_is_room_for_goes_without_a_note(sides: tuple[Notes, Notes]) -> None:
    own, parents = sides

    number = own.place("billing", "shop.py:3", message("a").queue)
    places = [own.begin(number, offset) for offset in range(3000)]
    assert len(parents.in_hand()) < 3000
    for at in places:
        own.end(at)
    assert [] == parents.in_hand()
    parents.accuse({f"billing m{number}": EndsSoFar(1, 1) for number in range(10_000)})
    assert "billing m9999" in own.accused
    assert "billing m0" not in own.accused
