"""A fence is carried from one acquisition of a queue to the next: what it knew of the last one is over with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from framework.client.fences import Fence, Fences
from framework.errors import ConnectionLost, Superseded
from framework.model.queue import MessageQueue
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from tests.services.parts import play

QUEUE, OTHER = MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 1)
STORED, OUTDATED, BUSY = (
    RemotingCommand(code) for code in (ResponseCode.SUCCESS, ResponseCode.BOX_EPOCH_OUTDATED, ResponseCode.SYSTEM_BUSY)
)


class Commits:
    """Commits under a fence, which are answered when a test says so."""

    def __init__(self) -> None:
        self.fences = Fences()
        self.fence = self.fences.of("billing", QUEUE)

    def send(self, offset: int) -> asyncio.Future[RemotingCommand]:
        answer: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        assert self.fence.epoch is not None
        self.fence.watch(answer, self.fence.epoch, QUEUE, offset)
        return answer

    async def stored(self) -> int:
        await asyncio.sleep(0.001)
        return self.fences.stored("billing", QUEUE)


def told(story: Callable[[Commits], Coroutine[Any, Any, None]]) -> None:
    play(lambda: story(Commits()))


def test_what_the_last_acquisition_stored_is_not_known_of_the_next() -> None:
    """It may begin below: after a reset, what the broker had above is stored no more."""

    async def story(commits: Commits) -> None:
        commits.fence.raise_to(7)
        commits.send(20).set_result(STORED)
        assert 20 == await commits.stored()
        commits.fence.raise_to(8)
        assert (-1, 8) == (await commits.stored(), commits.fences.epoch("billing", QUEUE))
        commits.send(10).set_result(STORED)
        assert 10 == await commits.stored()

    told(story)


def test_an_answer_that_comes_behind_the_next_acquisition_says_nothing_of_it() -> None:
    async def story(commits: Commits) -> None:
        commits.fence.raise_to(7)
        late, refused = commits.send(20), commits.send(21)
        commits.fence.raise_to(8)
        late.set_result(STORED)
        refused.set_result(OUTDATED)
        assert (-1, False) == (await commits.stored(), commits.fence.is_refused)

    told(story)


def test_a_refusal_is_over_with_the_acquisition_that_heard_it() -> None:
    async def story(commits: Commits) -> None:
        commits.fence.raise_to(7)
        commits.send(20).set_result(OUTDATED)
        assert (-1, True) == (await commits.stored(), commits.fence.is_refused)
        commits.fence.raise_to(9)
        assert not commits.fence.is_refused

    told(story)


@pytest.mark.parametrize("answer", [BUSY, ConnectionLost("a: gone"), None], ids=["busy", "gone", "cancelled"])
def test_a_commit_that_was_not_stored_raises_nothing(answer: RemotingCommand | Exception | None) -> None:
    async def story(commits: Commits) -> None:
        commits.fence.raise_to(7)
        commits.send(5).set_result(STORED)
        assert 5 == await commits.stored()
        sent = commits.send(9)
        if answer is None:
            sent.cancel()
        elif isinstance(answer, Exception):
            sent.set_exception(answer)
        else:
            sent.set_result(answer)
        assert (5, False) == (await commits.stored(), commits.fence.is_refused)

    told(story)


def test_a_refusal_of_an_older_epoch_is_told_and_not_noted() -> None:
    """Who waits for it hears that his commit did not count; the fence has a newer acquisition by then."""
    fence = Fence()
    fence.raise_to(8)
    with pytest.raises(Superseded):
        fence.passed(OUTDATED, 7, QUEUE)
    assert not fence.is_refused
    with pytest.raises(Superseded):
        fence.passed(OUTDATED, 8, QUEUE)
    assert fence.is_refused


def test_each_queue_of_each_group_has_a_fence_of_its_own() -> None:
    fences = Fences()
    fences.of("billing", QUEUE).raise_to(7)
    assert fences.of("billing", QUEUE) is fences.of("billing", QUEUE)
    assert [None, None, -1] == [
        fences.epoch("billing", OTHER), fences.epoch("audit", QUEUE), fences.stored("audit", QUEUE)
    ]  # fmt: skip
