"""The first offset of a group's topic goes to its broker alone: a stock one loses some of those that come at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from framework.client.brokers import Brokers
from framework.errors import BrokerUnreachable, Refused
from framework.model.queue import MessageQueue
from framework.model.subscription import Subscription
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.client.script import A, ScriptedCluster
from tests.net.memory import Peer, virtually

QUEUES = [MessageQueue("orders", "a", number) for number in range(4)]
EVERYTHING = Subscription("orders", "*", 1_700_000_000_000)
COMMIT = RequestCode.UPDATE_CONSUMER_OFFSET


class Stock:
    """A cluster whose broker a takes 100 ms for each request, as many at a time as come, like 5.5.0 and older."""

    def __init__(self) -> None:
        self.cluster = ScriptedCluster()
        self.cluster.network.scripts[A] = self._asked
        self.tables: dict[str, dict[int, int]] = {}
        self.refuses = 0

    @property
    def brokers(self) -> Brokers:
        return self.cluster.client.brokers

    def _asked(self, peer: Peer, request: RemotingCommand) -> None:
        fields = request.fields
        key = f"{fields.get('topic')}@{fields.get('consumerGroup')}"
        table = self.tables.get(key)
        asyncio.get_running_loop().call_later(0.1, self._done, peer, request, key, table)

    def _done(self, peer: Peer, request: RemotingCommand, key: str, table: dict[int, int] | None) -> None:
        answer = RemotingCommand(0)
        if self.refuses:
            self.refuses -= 1
            answer = RemotingCommand(1, remark="not now")
        elif request.code == COMMIT or (
            request.code == RequestCode.PULL_MESSAGE and int(request.fields["sysFlag"]) & 1
        ):
            if table is None:
                table = self.tables[key] = {}
            table[int(request.fields["queueId"])] = int(request.fields["commitOffset"])
        if request.code == RequestCode.PULL_MESSAGE:
            answer = RemotingCommand(19, {"nextBeginOffset": "5", "minOffset": "0", "maxOffset": "5"})
        if request.code == RequestCode.QUERY_CONSUMER_OFFSET:
            answer = RemotingCommand(0, {"offset": "3"})
        if not request.is_one_way:
            peer.reply(request, answer)

    async def stored(self) -> dict[int, int]:
        await asyncio.sleep(1)
        await self.cluster.client.close()
        return self.tables.get("orders@billing", {})


def told(story: Callable[[Stock], Awaitable[object]]) -> dict[int, int]:
    async def play() -> dict[int, int]:
        stock = Stock()
        await story(stock)
        return await stock.stored()

    return virtually(play)


def test_what_is_confirmed_at_once_is_kept() -> None:
    async def story(stock: Stock) -> None:
        await asyncio.gather(*(stock.brokers.commit("billing", queue, 5) for queue in QUEUES))

    assert dict.fromkeys(range(4), 5) == told(story)


def test_after_the_first_one_the_others_do_not_wait_for_each_other() -> None:
    async def story(stock: Stock) -> None:
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(stock.brokers.commit("billing", queue, 5) for queue in QUEUES))
        assert 0.3 > asyncio.get_running_loop().time() - began  # virtual: two rounds

    told(story)


def test_a_refused_first_one_lets_the_next_be_the_first() -> None:
    async def story(stock: Stock) -> None:
        stock.refuses = 1
        ended = await asyncio.gather(
            *(stock.brokers.commit("billing", queue, 5) for queue in QUEUES), return_exceptions=True
        )
        assert [Refused] == [type(each) for each in ended if each is not None]

    assert [5, 5, 5] == list(told(story).values())


def test_one_that_is_given_up_lets_the_next_be_the_first() -> None:
    async def story(stock: Stock) -> None:
        first = asyncio.ensure_future(stock.brokers.commit("billing", QUEUES[0], 5))
        others = [asyncio.ensure_future(stock.brokers.commit("billing", queue, 5)) for queue in QUEUES[1:]]
        await asyncio.sleep(0.05)
        first.cancel()
        await asyncio.gather(*others)

    assert {1, 2, 3} <= told(story).keys()


def test_of_those_that_nobody_waits_for_the_first_goes_alone_and_the_others_stay_to_be_told() -> None:
    async def story(stock: Stock) -> None:
        assert [5, None, None, None] == [
            await stock.brokers.commit_one_way("billing", queue, lambda: 5) for queue in QUEUES
        ]
        await asyncio.sleep(0.2)
        assert [6, 6, 6, 6] == [await stock.brokers.commit_one_way("billing", queue, lambda: 6) for queue in QUEUES]
        await asyncio.sleep(0.2)
        one_way = [each.is_one_way for each in stock.cluster.asked(A, COMMIT)]
        assert [False, True, True, True, True] == one_way, "one answer a group and topic, and no more"

    assert dict.fromkeys(range(4), 6) == told(story)


def test_one_that_nobody_waits_for_and_that_is_not_answered_is_told_again() -> None:
    async def story(stock: Stock) -> None:
        stock.refuses = 1
        assert 5 == await stock.brokers.commit_one_way("billing", QUEUES[0], lambda: 5)
        await asyncio.sleep(0.2)
        assert 7 == await stock.brokers.commit_one_way("billing", QUEUES[1], lambda: 7)

    assert {1: 7} == told(story)


def test_a_flush_waits_for_the_first_one_that_nobody_waits_for() -> None:
    async def story(stock: Stock) -> None:
        await stock.brokers.commit_one_way("billing", QUEUES[0], lambda: 5)
        await stock.brokers.commit("billing", QUEUES[1], 7)

    assert {0: 5, 1: 7} == told(story)


def test_no_offset_rides_on_a_pull_before_one_was_confirmed() -> None:
    async def story(stock: Stock) -> None:
        pullers = [stock.cluster.client.puller("billing", EVERYTHING, queue) for queue in QUEUES]
        await asyncio.gather(*(puller.pull(5, lambda: 5) for puller in pullers))
        assert {} == stock.tables
        await stock.brokers.commit("billing", QUEUES[0], 5)
        await asyncio.gather(*(puller.pull(5, lambda: 6) for puller in pullers))

    assert dict.fromkeys(range(4), 6) == told(story)


def test_whoever_reads_a_stored_offset_knows_that_they_are_kept() -> None:
    async def story(stock: Stock) -> None:
        assert 3 == await stock.brokers.query_offset("billing", QUEUES[0])
        assert [5, 5, 5, 5] == [await stock.brokers.commit_one_way("billing", queue, lambda: 5) for queue in QUEUES]
        assert all(each.is_one_way for each in stock.cluster.asked(A, COMMIT))

    told(story)


def test_where_nothing_answers_the_first_one_fails_and_the_next_is_tried() -> None:
    async def story(stock: Stock) -> None:
        stock.cluster.network.scripts[A] = lambda _peer, _request: None
        with pytest.raises(BrokerUnreachable):
            await stock.brokers.commit("billing", QUEUES[0], 5)
        with pytest.raises(BrokerUnreachable):
            await stock.brokers.commit("billing", QUEUES[1], 5)
        assert 2 == len(stock.cluster.asked(A, COMMIT))

    assert {} == told(story)


def test_groups_topics_and_brokers_do_not_wait_for_each_other() -> None:
    async def story(stock: Stock) -> None:
        stock.cluster.routes["parcels"] = stock.cluster.routes["orders"]
        began = asyncio.get_running_loop().time()
        await asyncio.gather(
            stock.brokers.commit("billing", QUEUES[0], 5),
            stock.brokers.commit("archive", QUEUES[0], 5),
            stock.brokers.commit("billing", MessageQueue("parcels", "a", 0), 5),
            stock.brokers.commit("billing", MessageQueue("orders", "b", 0), 5),
        )
        assert 0.2 > asyncio.get_running_loop().time() - began  # virtual: one round

    told(story)
