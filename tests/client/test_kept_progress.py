"""Progress that brokers keep, and the fences that it raises: by what is sent, and by what a refusal means."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from framework.client.kept_progress import KeptProgress
from framework.errors import Refused, Superseded
from framework.model.contracts import Kept
from framework.model.queue import MessageQueue
from framework.wire.codes import RequestCode
from framework.wire.command import ONE_WAY_BIT, RemotingCommand
from tests.client.script import A, ScriptedCluster
from tests.patience import soon, until

QUEUE, OTHER = MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 1)
COMMIT = RequestCode.UPDATE_CONSUMER_OFFSET


def run(story: Callable[[ScriptedCluster, KeptProgress], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        cluster = ScriptedCluster()
        client = cluster.client
        try:
            await soon(story(cluster, KeptProgress("billing", client.calls, client.fences)))
        finally:
            await client.close()

    asyncio.run(bounded())


def test_records_are_taken_written_and_read_under_their_epoch() -> None:
    async def story(cluster: ScriptedCluster, store: KeptProgress) -> None:
        answers = {
            31001: RemotingCommand(0, {"epoch": "7"}, b"kept"),
            31002: RemotingCommand(0, {"epoch": "8"}),
            31003: RemotingCommand(0),
        }
        cluster.both(lambda request: answers[request.code])
        assert Kept(7, b"kept") == await store.read(QUEUE)
        assert 8 == await store.take(QUEUE, b"first")
        await store.write(QUEUE, 8, b"later")
        assert (b"first", b"later") == tuple(
            cluster.asked(A, code)[0].body for code in (RequestCode.BOX_TAKE_PROGRESS, RequestCode.BOX_UPDATE_PROGRESS)
        )
        (written,) = cluster.asked(A, RequestCode.BOX_UPDATE_PROGRESS)
        place = {"consumerGroup": "billing", "topic": "orders", "queueId": "0", "bname": "a"}
        assert place | {"epoch": "8"} == written.fields
        answers[31001] = RemotingCommand(22)
        assert await store.read(QUEUE) is None

    run(story)


def test_a_broker_that_is_no_box_is_named_with_what_to_write_instead() -> None:
    async def story(cluster: ScriptedCluster, store: KeptProgress) -> None:
        cluster.both(lambda request: RemotingCommand(3, remark=f" request type {request.code} not supported"))
        with pytest.raises(Refused, match=r"by a: code 3, only the built-in broker.*write `progress: topic`"):
            await store.read(QUEUE)

    run(story)


def test_commits_carry_the_epoch_of_the_queues_that_have_one_and_of_no_others() -> None:
    async def story(cluster: ScriptedCluster, store: KeptProgress) -> None:
        cluster.both(lambda _: RemotingCommand(0, {"epoch": "8"}))
        brokers = cluster.client.brokers
        await store.take(QUEUE, b"")
        for group, queue in (("billing", QUEUE), ("billing", OTHER), ("audit", QUEUE)):
            await brokers.commit(group, queue, 5)
            await brokers.commit_confirmed(group, queue, lambda: 6)
            await brokers.commit_one_way(group, queue, lambda: 7)
        await until(lambda: len(cluster.asked(A, COMMIT)) == 9)
        sent = cluster.asked(A, COMMIT)
        assert ["8"] * 3 + [None] * 6 == [each.fields.get("epoch") for each in sent]
        assert [0, 0, 0] + [0, 0, ONE_WAY_BIT] * 2 == [each.flag & ONE_WAY_BIT for each in sent]

    run(story)


@pytest.mark.parametrize("how", ["commit", "confirmed", "write"])
def test_a_refusal_says_that_another_member_has_the_queue(how: str) -> None:
    async def story(cluster: ScriptedCluster, store: KeptProgress) -> None:
        cluster.both(lambda _: RemotingCommand(0, {"epoch": "8"}))
        await store.take(QUEUE, b"")
        fence = cluster.client.fences.of("billing", QUEUE)
        assert (8, False) == (fence.epoch, fence.is_refused)
        cluster.both(lambda _: RemotingCommand(31000))
        said: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
            "commit": lambda: cluster.client.brokers.commit("billing", QUEUE, 5),
            "confirmed": lambda: cluster.client.brokers.commit_confirmed("billing", QUEUE, lambda: 6),
            "write": lambda: store.write(QUEUE, 8, b"later"),
        }
        with pytest.raises(Superseded):
            await said[how]()
        assert (8, True) == (fence.epoch, fence.is_refused)
        cluster.both(lambda _: RemotingCommand(0, {"epoch": "9"}))
        await store.take(QUEUE, b"")
        assert (9, False) == (fence.epoch, fence.is_refused)

    run(story)


def test_a_commit_that_nobody_waits_for_tells_the_fence() -> None:
    async def story(cluster: ScriptedCluster, store: KeptProgress) -> None:
        cluster.both(lambda _: RemotingCommand(0, {"epoch": "8"}))
        await store.take(QUEUE, b"")
        fence = cluster.client.fences.of("billing", QUEUE)
        cluster.both(lambda _: RemotingCommand(31000))
        assert 7 == await cluster.client.brokers.commit_one_way("billing", QUEUE, lambda: 7)
        await until(lambda: fence.is_refused)

    run(story)
