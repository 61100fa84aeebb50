"""Retry queues: a send-back that nobody would keep is found, and few questions find it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator

import pytest

from framework.errors import BrokerUnreachable, Refused
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.stored import decode
from tests.client.script import A, B, ScriptedCluster, record, route_of
from tests.client.test_brokers import QUEUE
from tests.net.memory import virtually
from tests.simulation.left_out import left_out

ASKS = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG
GROUPS = [("billing", ["orders"])]


def with_queues(queues: int) -> Callable[[RemotingCommand], RemotingCommand]:
    """A broker that says yes to everything, and has so many retry queues for each group."""

    def answer(request: RemotingCommand) -> RemotingCommand:
        if request.code != ASKS:
            return RemotingCommand(0)
        return RemotingCommand(
            0, body=json.dumps({"groupName": request.fields["group"], "retryQueueNums": queues}).encode()
        )

    return answer


def refusing(code: int) -> Callable[[RemotingCommand], RemotingCommand]:
    return lambda request: RemotingCommand(code, remark="no") if request.code == ASKS else RemotingCommand(0)


async def known(cluster: ScriptedCluster) -> None:
    await cluster.client.routes.queues("orders")


async def send_back(cluster: ScriptedCluster) -> None:
    (message,) = decode(record(7), QUEUE)
    await cluster.client.retry_copies.send_back(message, "billing", delay_level=0, max_retries=16)


def test_each_broker_of_the_topics_is_asked_once_for_each_group() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        cluster.scripts = {A: with_queues(1), B: with_queues(0)}
        await known(cluster)
        rooms = cluster.client.retry_rooms
        await rooms.look([("billing", ["orders", "%RETRY%billing"]), ("audit", ["orders"])])

        assert ["billing", "audit"] == [each.fields["group"] for each in cluster.asked(A, ASKS)]
        assert ["billing", "audit"] == [each.fields["group"] for each in cluster.asked(B, ASKS)]
        assert rooms.complaint("billing", "a") is None
        (complaint,) = rooms.complaints("billing")
        assert complaint == rooms.complaint("billing", "b")
        assert "group billing: retryQueueNums is 0 at broker b" in complaint
        assert "`framework-app doctor billing` has the command" in complaint

        cluster.scripts[B] = with_queues(1)
        await rooms.look(GROUPS)
        assert [] == rooms.complaints("billing")
        assert [] != rooms.complaints("audit"), "who was not asked for is left as it was"
        await cluster.client.close()

    virtually(story)


def test_a_broker_that_is_not_there_holds_nobody_up_and_is_asked_no_more_in_that_round() -> None:
    async def story() -> float:
        cluster = ScriptedCluster()
        cluster.scripts = {A: lambda _: None, B: with_queues(0)}
        await known(cluster)
        await cluster.client.retry_rooms.look([("billing", ["orders"]), ("audit", ["orders"])])
        assert 1 == len(cluster.asked(A, ASKS))
        assert 2 == len(cluster.asked(B, ASKS))
        await cluster.client.close()
        return asyncio.get_running_loop().time()

    assert 3 <= virtually(story) < 3.2


@pytest.mark.parametrize(
    "code",
    [
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        ResponseCode.NO_PERMISSION,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    ],
)
def test_a_broker_that_cannot_say_is_believed_and_asked_again_by_the_next_look_alone(code: int) -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        cluster.both(refusing(code))
        await known(cluster)
        await cluster.client.retry_rooms.look(GROUPS)
        await send_back(cluster)
        assert [] == cluster.client.retry_rooms.complaints("billing")
        assert 1 == len(cluster.asked(A, ASKS))

        cluster.both(with_queues(0))
        await cluster.client.retry_rooms.look(GROUPS)
        with pytest.raises(Refused, match="retryQueueNums is 0 at broker a"):
            await send_back(cluster)
        await cluster.client.close()

    virtually(story)


def test_a_success_that_kept_nothing_is_none() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        cluster.both(with_queues(1))
        await known(cluster)
        await cluster.client.retry_rooms.look(GROUPS)
        cluster.both(with_queues(0))
        with pytest.raises(Refused, match=r"code 16, group billing: retryQueueNums is 0 at broker a"):
            await send_back(cluster)
        assert 1 == len(cluster.client.retry_rooms.complaints("billing")), "known at once, not at the next look"
        cluster.both(with_queues(2))
        await send_back(cluster)
        assert [] == cluster.client.retry_rooms.complaints("billing")
        await cluster.client.close()

    virtually(story)


@pytest.fixture
def careless() -> Iterator[None]:
    with left_out("a send-back that nobody keeps is found"):
        yield


@pytest.mark.usefixtures("careless")
def test_without_its_safeguard_a_success_that_kept_nothing_is_believed() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        cluster.both(with_queues(1))
        await known(cluster)
        await cluster.client.retry_rooms.look(GROUPS)
        cluster.both(with_queues(0))
        await send_back(cluster)
        assert [] == cluster.client.retry_rooms.complaints("billing"), "and the message is lost"
        await cluster.client.close()

    virtually(story)


def test_a_broker_that_has_never_said_it_makes_no_second_copy_by_its_silence() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        cluster.both(lambda request: None if request.code == ASKS else RemotingCommand(0))
        await known(cluster)
        await send_back(cluster)
        await cluster.client.close()

    virtually(story)


@pytest.mark.parametrize("silences", [1, 2, 3])
def test_a_broker_that_has_said_it_before_is_asked_three_times_and_then_the_copy_is_in_doubt(silences: int) -> None:
    """A lost answer must not lose the message: the copy is asked for again where nobody can tell."""

    async def story() -> int:
        cluster = ScriptedCluster()
        cluster.both(with_queues(1))
        await known(cluster)
        await cluster.client.retry_rooms.look(GROUPS)
        before = len(cluster.asked(A, ASKS))
        answers = iter([None] * silences + [with_queues(1)] * 3)

        def falls_silent(request: RemotingCommand) -> RemotingCommand | None:
            answer = next(answers) if request.code == ASKS else with_queues(1)
            return None if answer is None else answer(request)

        cluster.both(falls_silent)
        if silences == 3:
            with pytest.raises(BrokerUnreachable):
                await send_back(cluster)
        else:
            await send_back(cluster)
        await cluster.client.close()
        return len(cluster.asked(A, ASKS)) - before

    assert min(silences + 1, 3) == virtually(story)


def test_one_reading_serves_all_that_succeeded_before_it() -> None:
    async def story() -> int:
        cluster = ScriptedCluster()
        cluster.both(with_queues(1))
        await known(cluster)
        rooms, loop = cluster.client.retry_rooms, asyncio.get_running_loop()
        waiting = [loop.create_task(rooms.confirm("billing", "a")) for _ in range(100)]
        await asyncio.sleep(0)
        for task in waiting:
            await task
        await cluster.client.close()
        return len(cluster.asked(A, ASKS))

    assert virtually(story) <= 2


def test_a_reading_under_way_may_be_older_than_the_success_so_another_one_follows() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        answers: Iterator[RemotingCommand] = iter((with_queues(1)(ask), with_queues(0)(ask)))
        cluster.both(lambda request: next(answers) if request.code == ASKS else RemotingCommand(0))
        await known(cluster)
        rooms, loop = cluster.client.retry_rooms, asyncio.get_running_loop()
        first = loop.create_task(rooms.confirm("billing", "a"))
        while not cluster.asked(A, ASKS):  # noqa: ASYNC110 - what is waited for is plain state
            await asyncio.sleep(0)
        second = loop.create_task(rooms.confirm("billing", "a"))
        await first
        with pytest.raises(Refused):
            await second
        await cluster.client.close()

    ask = RemotingCommand(ASKS, fields={"group": "billing"})
    virtually(story)


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY])
def test_a_broker_that_was_busy_is_asked_when_something_is_sent_back(code: int) -> None:
    """It can say it, and could not just then: unlike one that knows no such question."""

    async def story() -> None:
        cluster = ScriptedCluster()
        cluster.both(refusing(code))
        await known(cluster)
        await cluster.client.retry_rooms.look(GROUPS)
        cluster.both(with_queues(0))
        with pytest.raises(Refused, match="retryQueueNums is 0 at broker a"):
            await send_back(cluster)
        await cluster.client.close()

    virtually(story)


def test_nothing_is_left_of_a_reading_that_has_ended() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        cluster.both(with_queues(1))
        await known(cluster)
        for _ in range(3):
            await send_back(cluster)
        cluster.both(refusing(ResponseCode.SYSTEM_BUSY))
        await send_back(cluster)
        rooms = cluster.client.retry_rooms
        assert ({}, {}) == (rooms._next, rooms._under_way)
        await cluster.client.close()

    virtually(story)


def test_what_is_known_of_a_broker_that_is_gone_is_forgotten() -> None:
    """A broker that we are still connected to is not gone, whatever a name server leaves out."""

    async def story() -> None:
        cluster = ScriptedCluster()
        cluster.both(with_queues(0))
        await known(cluster)
        rooms = cluster.client.retry_rooms
        await rooms.look(GROUPS)
        assert 2 == len(rooms.complaints("billing"))
        cluster.routes["orders"] = route_of({"a": {0: A}})
        await cluster.client.routes.refresh("orders")
        await rooms.look(GROUPS)
        assert 2 == len(rooms.complaints("billing"))
        for address, peer in cluster.network.peers:
            if address == B:
                peer.pipe.cut()
        await asyncio.sleep(3_600)
        await cluster.client.routes.refresh("orders")
        await rooms.look(GROUPS)
        (complaint,) = rooms.complaints("billing")
        assert "at broker a" in complaint
        await cluster.client.close()

    virtually(story)
