"""Looks at messages, and commits whose answer is waited for: what a broker refuses is neither a look nor a commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from framework.errors import BrokerUnreachable, Refused
from framework.model.queue import MessageQueue
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.client.script import A, B, ScriptedCluster, record
from tests.net.memory import virtually

QUEUE, OTHER = MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 1)
COMMIT, PULL = RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.PULL_MESSAGE


def answer(code: int, following: int = 0, body: bytes = b"", *, low: int = 0, end: int = 100) -> RemotingCommand:
    fields = {"nextBeginOffset": str(following), "minOffset": str(low), "maxOffset": str(end)}
    return RemotingCommand(code, fields, body)


def told(story: Callable[[ScriptedCluster], Coroutine[Any, Any, None]]) -> None:
    async def play() -> None:
        cluster = ScriptedCluster()
        await story(cluster)
        await cluster.client.close()

    virtually(play)


# Looks


def test_a_look_brings_as_many_as_were_asked_for() -> None:
    async def story(cluster: ScriptedCluster) -> None:
        cluster.both(lambda _: answer(0, 8, record(5) + record(6) + record(7)))
        assert [5, 6] == [each.queue_offset for each in await cluster.client.brokers.peek("billing", QUEUE, 5, 2)]

    told(story)


@pytest.mark.parametrize(
    ("said", "offset"),
    [
        (answer(ResponseCode.PULL_NOT_FOUND, 5), 5),
        (answer(ResponseCode.PULL_RETRY_IMMEDIATELY, 5), 5),
        (answer(ResponseCode.PULL_OFFSET_MOVED, 10, low=10), 5),
        (answer(ResponseCode.PULL_OFFSET_MOVED, 100, end=100), 100),
    ],
)
def test_what_is_not_there_is_nothing(said: RemotingCommand, offset: int) -> None:
    async def story(cluster: ScriptedCluster) -> None:
        cluster.both(lambda _: said)
        assert [] == await cluster.client.brokers.peek("billing", QUEUE, offset, 1)

    told(story)


@pytest.mark.parametrize("offset", [0, 50, 99])
def test_the_news_of_a_reset_is_no_look(offset: int) -> None:
    """It is told once: whoever took it for "nothing there" would pass over what the group was reset to."""

    async def story(cluster: ScriptedCluster) -> None:
        cluster.both(lambda _: answer(ResponseCode.PULL_OFFSET_MOVED, 7))
        with pytest.raises(Refused, match="the group was reset to 7 meanwhile"):
            await cluster.client.brokers.peek("billing", QUEUE, offset, 1)

    told(story)


def test_a_refusal_is_no_look() -> None:
    async def story(cluster: ScriptedCluster) -> None:
        cluster.both(lambda _: RemotingCommand(ResponseCode.NO_PERMISSION, remark="no"))
        with pytest.raises(Refused, match="code 16, no"):
            await cluster.client.brokers.peek("billing", QUEUE, 5, 1)

    told(story)


# Commits


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_ERROR])
def test_a_commit_that_was_refused_is_not_confirmed_and_the_next_one_is_still_the_first(code: int) -> None:
    """Ranges are kept above it, and whoever believed in it would skip what lies below."""

    async def story(cluster: ScriptedCluster) -> None:
        cluster.both(lambda _: RemotingCommand(code, remark="no"))
        with pytest.raises(Refused):
            await cluster.client.brokers.commit_confirmed("billing", QUEUE, lambda: 5)
        assert not cluster.client.first_commits.is_kept("billing", QUEUE)
        assert not cluster.client.first_commits.is_under_way("billing", QUEUE)
        cluster.both(lambda _: RemotingCommand(0))
        assert 6 == await cluster.client.brokers.commit_confirmed("billing", OTHER, lambda: 6)
        assert cluster.client.first_commits.is_kept("billing", QUEUE), "the broker has the topic's table now"

    told(story)


def test_what_is_released_meanwhile_is_not_committed_and_holds_nobody_up() -> None:
    async def story(cluster: ScriptedCluster) -> None:
        assert await cluster.client.brokers.commit_confirmed("billing", QUEUE, lambda: None) is None
        assert [] == cluster.asked(A, COMMIT)
        assert 6 == await cluster.client.brokers.commit_confirmed("billing", QUEUE, lambda: 6)

    told(story)


def test_what_is_committed_is_what_is_committable_when_the_request_leaves() -> None:
    """The connection is made first, and the first commit of its topic waited for."""
    committable = [5]

    async def story(cluster: ScriptedCluster) -> None:
        first: list[RemotingCommand] = []

        def late(request: RemotingCommand) -> RemotingCommand | None:
            first.append(request)
            return None if len(first) == 1 else RemotingCommand(0)

        cluster.both(late)
        other = asyncio.ensure_future(cluster.client.brokers.commit_confirmed("billing", OTHER, lambda: 1))
        await asyncio.sleep(0.1)
        mine = asyncio.ensure_future(cluster.client.brokers.commit_confirmed("billing", QUEUE, lambda: committable[-1]))
        await asyncio.sleep(0.1)
        committable.append(9)
        with pytest.raises(BrokerUnreachable):
            await other
        assert 9 == await mine
        assert ["1", "9"] == [each.fields["commitOffset"] for each in cluster.asked(A, COMMIT)]
        assert [] == cluster.asked(B, COMMIT)

    told(story)


@pytest.mark.parametrize("how", ["commit", "commit_confirmed"])
def test_while_pulls_are_not_read_an_answer_is_waited_for_on_the_other_connection(how: str) -> None:
    """There is no room for what they bring: nobody would see the answer, and a stop would wait for ever."""

    async def story(cluster: ScriptedCluster) -> None:
        client = cluster.client
        await client.brokers.commit("billing", QUEUE, 1)
        client.pause_pulls(paused=True)
        commit = (
            client.brokers.commit("billing", QUEUE, 5)
            if how == "commit"
            else client.brokers.commit_confirmed("billing", QUEUE, lambda: 5)
        )
        async with asyncio.timeout(60):
            await commit
        assert 2 == len(cluster.asked(A, COMMIT))

    told(story)


def test_while_pulls_are_not_read_no_answer_of_a_commit_by_the_way_is_waited_for() -> None:
    async def story(cluster: ScriptedCluster) -> None:
        client = cluster.client
        client.pause_pulls(paused=True)
        async with asyncio.timeout(60):
            assert 5 == await client.brokers.commit_one_way("billing", QUEUE, lambda: 5)
            assert not client.first_commits.is_under_way("billing", QUEUE)
            await client.brokers.commit("billing", OTHER, 6)

    told(story)


def test_a_commit_whose_answer_is_not_read_any_more_is_asked_for_on_the_other_connection() -> None:
    """A queue is left when the room to read is used up, and by what stays: its commit was on the way already."""

    async def story(cluster: ScriptedCluster) -> None:
        client = cluster.client

        def paused_before_it_answers(_: RemotingCommand) -> RemotingCommand:
            client.pause_pulls(paused=True)
            return RemotingCommand(0)

        cluster.both(paused_before_it_answers)
        assert 5 == await client.brokers.commit_one_way("billing", QUEUE, lambda: 5)
        async with asyncio.timeout(60):
            await client.brokers.commit(
                "billing", OTHER, 6
            )  # that one's answer, which says whose turn it is, is unread
        client.pause_pulls(paused=False)
        async with asyncio.timeout(60):
            await client.brokers.commit("billing", OTHER, 7)
        assert ["5", "6", "7", "7"] == sorted(each.fields["commitOffset"] for each in cluster.asked(A, COMMIT))

    told(story)
