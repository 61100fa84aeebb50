"""Brokers: typed calls, by the right connection, with answers that are looked at before they are believed."""

from __future__ import annotations

import asyncio
import json
from functools import partial

import pytest
from structlog.testing import capture_logs

from framework.errors import BrokerUnreachable, ConnectionLost, ProtocolError, Refused
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.wire import stored
from framework.wire.bodies.group import LockedQueues
from framework.wire.bodies.heartbeat import Heartbeat
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.client.script import A, B, ScriptedCluster, record, route_of
from tests.net.memory import virtually

QUEUE = MessageQueue("orders", "a", 1)


def offset(value: object) -> RemotingCommand:
    return RemotingCommand(0, {"offset": str(value)})


def test_offsets_are_asked_of_the_queue_s_own_master() -> None:
    async def story() -> tuple[list[int | None], list[dict[str, str]]]:
        cluster = ScriptedCluster()
        cluster.scripts[A] = lambda request: offset(request.code)
        brokers = cluster.client.brokers
        answers = [
            await brokers.query_offset("billing", QUEUE),
            await brokers.max_offset(QUEUE),
            await brokers.min_offset(QUEUE),
            await brokers.search_offset(QUEUE, 1_700_000_000_000),
        ]
        await cluster.client.close()
        assert [] == cluster.network.requests(B)
        return answers, [request.fields for request in cluster.network.requests(A)]

    answers, fields = virtually(story)

    assert [14, 30, 31, 29] == answers
    assert {
        "consumerGroup": "billing", "topic": "orders", "queueId": "1", "setZeroIfNotFound": "false", "bname": "a",
    } == fields[0]  # fmt: skip
    assert "1700000000000" == fields[3]["timestamp"]
    assert "LOWER" == fields[3]["boundaryType"]


def test_nothing_stored_is_none_and_no_error() -> None:
    async def story() -> int | None:
        cluster = ScriptedCluster()
        cluster.scripts[A] = lambda _: RemotingCommand(22, remark="Not found, maybe this group consumer boot first")
        found = await cluster.client.brokers.query_offset("billing", QUEUE)
        await cluster.client.close()
        return found

    assert virtually(story) is None


@pytest.mark.parametrize("value", [-1, 2**63 - 1, -(2**63), 2**64, "", "x"])
def test_an_absurd_offset_is_an_error_and_never_an_offset(value: object) -> None:
    """Below 0 it would be pulled with; absurdly high, everything would be skipped."""

    async def story() -> None:
        cluster = ScriptedCluster()
        cluster.scripts[A] = lambda _: offset(value)
        brokers = cluster.client.brokers
        with pytest.raises(ProtocolError):
            await brokers.query_offset("billing", QUEUE)
        with pytest.raises(ProtocolError):
            await brokers.max_offset(QUEUE)
        with pytest.raises(ProtocolError):
            await brokers.min_offset(QUEUE)
        await cluster.client.close()

    virtually(story)


def test_a_commit_is_confirmed_or_one_way_on_the_connection_for_pulls() -> None:
    async def story() -> list[tuple[bool, str]]:
        cluster = ScriptedCluster()
        await cluster.client.brokers.commit("billing", QUEUE, 7)
        await cluster.client.brokers.commit_one_way("billing", QUEUE, lambda: 8)
        await asyncio.sleep(0.01)
        assert 1 == cluster.network.dialled.count(A)
        await cluster.client.close()
        return [
            (request.is_one_way, request.fields["commitOffset"])
            for request in cluster.asked(A, RequestCode.UPDATE_CONSUMER_OFFSET)
        ]

    assert [(False, "7"), (True, "8")] == virtually(story)


def test_a_refused_commit_is_raised() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        cluster.scripts[A] = lambda _: RemotingCommand(26, remark="group missing")
        with pytest.raises(Refused, match=r"UPDATE_CONSUMER_OFFSET \(15\) refused by a: code 26, group missing"):
            await cluster.client.brokers.commit("billing", QUEUE, 7)
        await cluster.client.close()

    virtually(story)


def test_a_broker_that_no_route_names_is_looked_for_once_more() -> None:
    async def story() -> str:
        cluster = ScriptedCluster()
        cluster.routes["orders"] = route_of({"b": {0: B}})
        await cluster.client.routes.queues("orders")
        with pytest.raises(BrokerUnreachable, match="broker a: no master in any known route"):
            await cluster.client.brokers.max_offset(QUEUE)
        cluster.routes["orders"] = route_of({"a": {0: A}})
        cluster.scripts[A] = lambda _: offset(5)
        found = await cluster.client.brokers.max_offset(QUEUE)
        await cluster.client.close()
        return str(found)

    assert "5" == virtually(story)


def members(*names: str) -> RemotingCommand:
    return RemotingCommand(0, body=json.dumps({"consumerIdList": names}).encode())


def test_leaving_costs_one_request_s_patience_whatever_hangs() -> None:
    async def story() -> float:
        cluster = ScriptedCluster()
        cluster.routes["orders"] = route_of({"a": {0: A, 1: B}, "c": {0: "10.0.0.3:10911"}})
        await cluster.client.routes.queues("orders")
        for address in (A, B):
            await cluster.client.pool.channel(address)
        cluster.scripts = {A: lambda _: None, B: lambda _: None}
        groups = [f"group-{number}" for number in range(50)]
        began = asyncio.get_running_loop().time()
        await cluster.client.brokers.leave("me", groups)
        took = asyncio.get_running_loop().time() - began
        told = [
            [each.fields["consumerGroup"] for each in cluster.asked(address, RequestCode.UNREGISTER_CLIENT)]
            for address in (A, B, "10.0.0.3:10911")
        ]
        assert [sorted(groups), sorted(groups), []] == [sorted(each) for each in told], (
            "who is not connected, is not told"
        )
        await cluster.client.close()
        return took

    assert 2.9 < virtually(story) < 3.1


def test_each_broker_s_list_is_told_apart_and_who_lacks_us_is_told_again() -> None:
    """Code 1, an empty list and an unreachable broker are no list that counts."""

    async def story() -> tuple[list[list[tuple[str, ...] | None]], list[str]]:
        cluster, unlisted = ScriptedCluster(), list[str]()
        brokers = cluster.client.brokers
        brokers.on_unlisted = unlisted.append
        await cluster.client.routes.queues("orders")

        async def lists() -> list[tuple[str, ...] | None]:
            return [each.listed for each in await brokers.lists("billing", ["a", "b", "c"], "me")]

        cluster.scripts = {A: lambda _: members("other"), B: lambda _: members("me", "other")}
        found = [await lists()]
        cluster.scripts[A] = lambda _: RemotingCommand(1, remark="no such group")
        found.append(await lists())
        cluster.scripts[A] = lambda _: members()
        found.append(await lists())
        cluster.scripts[A] = lambda _: members("me")
        found.append(await lists())
        await cluster.client.close()
        return found, unlisted

    found, unlisted = virtually(story)
    both = ("me", "other")
    assert [[("other",), both, None], [None, both, None], [None, both, None], [("me",), both, None]] == found
    assert [A] == unlisted


def test_a_list_comes_with_the_age_of_the_connection_that_it_came_by() -> None:
    async def story() -> list[int]:
        cluster = ScriptedCluster()
        cluster.both(lambda _: members("me"))
        await cluster.client.routes.queues("orders")
        ages = []
        for _ in range(2):
            (each,) = await cluster.client.brokers.lists("billing", ["a"])
            ages.append(each.connected_ms)
            await asyncio.sleep(7)
        for address, peer in cluster.network.peers:
            if address == A:
                peer.pipe.cut()
        await asyncio.sleep(0.01)
        (each,) = await cluster.client.brokers.lists("billing", ["a"])
        ages.append(each.connected_ms)
        await cluster.client.close()
        return [round(age / 1000) for age in ages]

    assert [0, 7, 0] == virtually(story)


def test_members_are_those_of_all_brokers_of_the_topic() -> None:
    async def story() -> list[object]:
        cluster = ScriptedCluster()
        brokers = cluster.client.brokers
        cluster.scripts = {A: lambda _: members("m1", "m2"), B: lambda _: members("m3", "m2")}
        seen: list[object] = [await brokers.members("billing", "orders")]
        cluster.scripts[A] = lambda _: RemotingCommand(1, remark="no consumer for this group")
        seen.append(await brokers.members("billing", "orders"))
        await cluster.client.close()
        return seen

    assert [["m1", "m2", "m3"], ["m2", "m3"]] == virtually(story)


def test_a_group_that_no_broker_knows_is_an_error_and_not_an_empty_list() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        cluster.both(lambda _: RemotingCommand(1, remark="no consumer for this group"))
        with pytest.raises(Refused, match="no consumer for this group"):
            await cluster.client.brokers.members("billing", "orders")
        cluster.both(lambda _: members())
        with pytest.raises(ProtocolError, match="members of billing: an empty list"):
            await cluster.client.brokers.members("billing", "orders")
        with pytest.raises(BrokerUnreachable, match="topic nowhere has no broker"):
            await cluster.client.brokers.members("billing", "nowhere")
        await cluster.client.close()

    virtually(story)


def test_a_heartbeat_goes_by_the_one_connection_that_pulls_do_not_use() -> None:
    async def story() -> tuple[object, int]:
        cluster = ScriptedCluster()
        cluster.scripts[A] = lambda _: RemotingCommand(0, {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"})
        client = cluster.client
        await client.pool.channel(A, "pulls")
        answer = await client.brokers.heartbeat(A, Heartbeat(client_id="c", producers=(), consumers=()))
        await client.brokers.heartbeat(A, Heartbeat(client_id="c", producers=(), consumers=()))
        await client.close()
        by = [
            index
            for index, (_, peer) in enumerate(cluster.network.peers)
            if any(request.code == RequestCode.HEART_BEAT for request in peer.requests)
        ]
        return answer, len(by)

    answer, connections = virtually(story)

    assert getattr(answer, "subscription_changed", None)
    assert 1 == connections


def test_leaving_tells_every_broker_that_is_connected_and_raises_nothing() -> None:
    async def story() -> list[list[RemotingCommand]]:
        cluster = ScriptedCluster()
        await cluster.client.routes.queues("orders")
        await cluster.client.pool.channel(A)
        cluster.scripts[A] = lambda _: RemotingCommand(1, remark="no")
        await cluster.client.brokers.leave("10.0.0.7@1", ["billing"])
        await cluster.client.close()
        return [cluster.asked(address, RequestCode.UNREGISTER_CLIENT) for address in (A, B)]

    on_a, on_b = virtually(story)

    assert {"clientID": "10.0.0.7@1", "consumerGroup": "billing"} == on_a[0].fields
    assert [] == on_b


def test_addresses_are_all_known_brokers_and_their_replicas() -> None:
    """Who reads from a replica must be known there too: a condition by SQL92 goes out with heartbeats only."""

    async def story() -> tuple[list[str], list[str]]:
        cluster = ScriptedCluster()
        cluster.routes["orders"] = route_of({"a": {1: B, 0: A}})
        before = cluster.client.brokers.addresses()
        await cluster.client.routes.queues("orders")
        after = cluster.client.brokers.addresses()
        await cluster.client.close()
        return before, after

    assert ([], [A, B]) == virtually(story)


def test_a_send_back_names_the_record_and_waits_for_the_answer() -> None:
    async def story() -> dict[str, str]:
        cluster = ScriptedCluster()
        (message,) = stored.decode(record(7), QUEUE)
        await cluster.client.retry_copies.send_back(message, "billing", delay_level=3, max_retries=16)
        await cluster.client.close()
        (request,) = cluster.asked(A, RequestCode.CONSUMER_SEND_MSG_BACK)
        return request.fields

    assert {
        "offset": "1007", "group": "billing", "delayLevel": "3", "originTopic": "orders", "maxReconsumeTimes": "16",
    }.items() <= virtually(story).items()  # fmt: skip


def test_a_send_back_without_an_answer_is_an_error() -> None:
    async def story() -> float:
        cluster = ScriptedCluster()
        cluster.scripts[A] = lambda _: None
        message = Message("orders", b"x", queue=QUEUE)
        with pytest.raises(BrokerUnreachable, match=r"CONSUMER_SEND_MSG_BACK \(36\): no answer from 10.0.0.1:10911"):
            await cluster.client.retry_copies.send_back(message, "billing", delay_level=3, max_retries=16)
        await cluster.client.close()
        return asyncio.get_running_loop().time()

    assert 5 <= virtually(story) < 5.2


def test_whoever_waits_when_the_cluster_is_closed_is_told() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        cluster.scripts[A] = lambda _: None
        waiting = asyncio.get_running_loop().create_task(cluster.client.brokers.max_offset(QUEUE))
        await asyncio.sleep(0.1)
        await cluster.client.close()
        with pytest.raises(ConnectionLost, match="closed by this process"):
            await waiting

    virtually(story)


def test_a_connection_tells_its_address_so_that_a_heartbeat_can_follow() -> None:
    async def story() -> list[str]:
        from framework.client.cluster import Cluster

        cluster = ScriptedCluster()
        connected: list[str] = []
        client = Cluster(cluster.world, cluster.options, on_connected=connected.append)
        await client.brokers.unregister(A, "member", "billing")
        await client.close()
        return connected

    assert [A] == virtually(story)


def test_of_two_brokers_that_take_no_leave_the_one_that_is_gone_is_not_told_of_again() -> None:
    """Who makes connections has said that it is away; that the other refuses nobody else says."""

    async def story() -> list[tuple[str, str]]:
        cluster = ScriptedCluster()
        brokers = cluster.client.brokers
        for queue in (QUEUE, MessageQueue("orders", "b", 1)):
            cluster.scripts[A] = cluster.scripts[B] = lambda request: offset(request.code)
            await brokers.max_offset(queue)

        def cut(_: RemotingCommand) -> None:
            for address, peer in cluster.network.peers:
                if address == A:
                    peer.pipe.cut()

        cluster.scripts[A] = cut
        cluster.scripts[B] = lambda _: RemotingCommand(1, remark="no")
        with capture_logs() as logs:
            await brokers.leave("member", ["billing"])
        await cluster.client.close()
        return sorted((line["broker"], line["log_level"]) for line in logs if line["event"] == "leave not confirmed")

    assert [(A, "debug"), (B, "warning")] == virtually(story)


# Order


def test_locks_are_asked_of_the_queues_own_master_and_only_known_ones_are_believed() -> None:
    async def story() -> tuple[frozenset[MessageQueue], RemotingCommand, str]:
        cluster = ScriptedCluster()
        stranger = MessageQueue("orders", "a", 9)
        other = MessageQueue("orders", "a", 0)
        cluster.scripts[A] = lambda _: RemotingCommand(0, body=LockedQueues(queues=(QUEUE, stranger)).encode())
        held = await cluster.client.brokers.lock("billing", "me@1", [other, QUEUE])
        where = cluster.client.brokers.where(QUEUE)
        await cluster.client.close()
        assert [] == cluster.network.requests(B)
        return held, cluster.asked(A, RequestCode.LOCK_BATCH_MQ)[0], where

    held, request, where = virtually(story)

    assert {QUEUE} == held
    assert A == where
    assert {
        "consumerGroup": "billing", "clientId": "me@1", "onlyThisBroker": False,
        "mqSet": [
            {"topic": "orders", "brokerName": "a", "queueId": 0}, {"topic": "orders", "brokerName": "a", "queueId": 1},
        ],
    } == json.loads(request.body)  # fmt: skip


def test_an_unlock_is_confirmed() -> None:
    async def story() -> RemotingCommand:
        cluster = ScriptedCluster()
        await cluster.client.brokers.unlock("billing", "me@1", [QUEUE])
        cluster.scripts[A] = lambda _: RemotingCommand(1, remark="no")
        with pytest.raises(Refused):
            await cluster.client.brokers.unlock("billing", "me@1", [QUEUE])
        await cluster.client.close()
        return cluster.asked(A, RequestCode.UNLOCK_BATCH_MQ)[0]

    assert "me@1" == json.loads(virtually(story).body)["clientId"]


def test_an_unknown_broker_keeps_no_locks_anywhere() -> None:
    async def story() -> str:
        cluster = ScriptedCluster()
        where = cluster.client.brokers.where(MessageQueue("orders", "nobody", 0))
        await cluster.client.close()
        return where

    assert "" == virtually(story)


def test_a_one_way_commit_says_what_is_committable_when_its_connection_is_there() -> None:
    """While it waits its queue may move on, or be handed over with a confirmed offset that an older one must not
    follow.
    """

    async def story() -> list[str]:
        cluster = ScriptedCluster()
        cluster.network.delay = 1.0
        brokers = cluster.client.brokers
        offsets: dict[int, int | None] = {1: 5, 2: 5}
        waiting = [
            asyncio.get_running_loop().create_task(
                brokers.commit_one_way("billing", QUEUE._replace(number=number), partial(offsets.get, number))
            )
            for number in offsets
        ]
        await asyncio.sleep(0.5)
        assert [] == cluster.network.requests(A), "there is no connection yet"
        offsets.update({1: 8, 2: None})
        assert [8, None] == [await task for task in waiting]
        await asyncio.sleep(0.01)
        await cluster.client.close()
        return [each.fields["commitOffset"] for each in cluster.asked(A, RequestCode.UPDATE_CONSUMER_OFFSET)]

    assert ["8"] == virtually(story)
