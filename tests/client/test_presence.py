"""A producer by itself tells the brokers it sends to that it is there."""

from __future__ import annotations

import asyncio

from framework.client.producer import Producer
from framework.model.queue import MessageQueue
from framework.wire.bodies.heartbeat import Heartbeat
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.client.script import NS, A, B, ScriptedCluster
from tests.net.memory import Peer, virtually
from tests.simulation.cluster import Cluster
from tests.simulation.story import Story, tell

AT_A, AT_B = MessageQueue("orders", "a", 0), MessageQueue("orders", "b", 0)


def answer(request: RemotingCommand) -> RemotingCommand:
    if request.code == RequestCode.SEND_MESSAGE_V2:
        return RemotingCommand(0, {"msgId": "0A00", "queueId": "0", "queueOffset": "7"})
    return RemotingCommand(0)


def scripted() -> ScriptedCluster:
    cluster = ScriptedCluster()
    cluster.both(answer)
    return cluster


def beats(cluster: ScriptedCluster, address: str) -> list[RemotingCommand]:
    return cluster.asked(address, RequestCode.HEART_BEAT)


def test_a_broker_hears_who_sends_at_once_then_each_30_seconds_and_at_the_end() -> None:
    async def story() -> None:
        cluster = scripted()
        async with Producer(name_servers=NS, world=cluster.world, group="shop") as producer:
            await producer.send("orders", b"x", queue=AT_A)
            await asyncio.sleep(1)  # of virtual time
            (first,) = beats(cluster, A)
            assert 1 == len(beats(cluster, A))
            await asyncio.sleep(60)
            assert 3 == len(beats(cluster, A))
            assert [] == beats(cluster, B), "nobody connects for the sake of a heartbeat"

        heartbeat = Heartbeat.decode(first.body)
        (left,) = cluster.asked(A, RequestCode.UNREGISTER_CLIENT)
        assert ["shop"] == [producer.group for producer in heartbeat.producers]
        assert () == heartbeat.consumers
        assert {"clientID": heartbeat.client_id, "producerGroup": "shop"} == left.fields
        assert [] == cluster.asked(B, RequestCode.UNREGISTER_CLIENT)

    virtually(story)


def test_it_leaves_each_group_that_its_heartbeats_named() -> None:
    async def story() -> None:
        cluster = scripted()
        async with Producer(name_servers=NS, world=cluster.world, group="shop") as producer:
            await producer.send("orders", b"x", queue=AT_A)
            await producer.cluster.introductions.join("askers")
            await asyncio.sleep(31)
            named = [each.group for each in Heartbeat.decode(beats(cluster, A)[-1].body).producers]
        left = [each.fields["producerGroup"] for each in cluster.asked(A, RequestCode.UNREGISTER_CLIENT)]
        assert ["shop", "askers"] == named
        assert ["askers", "shop"] == sorted(left), "all at once, in any order"

    virtually(story)


def test_each_broker_hears_of_it_when_it_is_first_sent_to() -> None:
    async def story() -> None:
        cluster = scripted()
        async with Producer(name_servers=NS, world=cluster.world) as producer:
            await producer.send("orders", b"x", queue=AT_A)
            await asyncio.sleep(20)
            await producer.send("orders", b"x", queue=AT_B)
            await asyncio.sleep(1)
            assert (1, 1) == (len(beats(cluster, A)), len(beats(cluster, B)))
            await asyncio.sleep(20)
            assert (2, 2) == (len(beats(cluster, A)), len(beats(cluster, B)))

    virtually(story)


def test_a_broker_that_is_its_own_name_server_hears_of_it_by_the_connection_that_asked_for_the_route() -> None:
    """As the built-in one is. Nobody knows yet that a broker is there when this connection is made."""

    async def story() -> None:
        cluster = scripted()

        def both_at_once(peer: Peer, request: RemotingCommand) -> RemotingCommand:
            is_route = request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC
            return cluster.name_server(peer, request) if is_route else answer(request)

        cluster.network.scripts[A] = both_at_once
        async with Producer(name_servers=(A,), world=cluster.world) as producer:
            await producer.send("orders", b"x", queue=AT_A)
            await asyncio.sleep(1)
            assert 1 == len(beats(cluster, A))
            await asyncio.sleep(60)
            assert 3 == len(beats(cluster, A))
        assert 1 == len(cluster.asked(A, RequestCode.UNREGISTER_CLIENT))

    virtually(story)


def test_a_fresh_connection_is_told_at_once() -> None:
    async def story() -> None:
        cluster = scripted()
        async with Producer(name_servers=NS, world=cluster.world) as producer:
            await producer.send("orders", b"x", queue=AT_A)
            await asyncio.sleep(10)
            next(peer for place, peer in cluster.network.peers if place == A).pipe.cut()
            await asyncio.sleep(1)
            await producer.send("orders", b"x", queue=AT_A)
            await asyncio.sleep(1)
            assert 2 == len(beats(cluster, A))

    virtually(story)


def test_a_refused_heartbeat_stops_neither_sending_nor_the_next_one() -> None:
    def refuse(request: RemotingCommand) -> RemotingCommand:
        return RemotingCommand(1, remark="no") if request.code == RequestCode.HEART_BEAT else answer(request)

    async def story() -> None:
        cluster = scripted()
        cluster.both(refuse)
        async with Producer(name_servers=NS, world=cluster.world) as producer:
            await producer.send("orders", b"x", queue=AT_A)
            await asyncio.sleep(35)
            await producer.send("orders", b"x", queue=AT_A)
            assert 2 == len(beats(cluster, A))

    virtually(story)


def test_a_producer_that_never_sent_leaves_nobody() -> None:
    async def story() -> None:
        cluster = scripted()
        async with Producer(name_servers=NS, world=cluster.world):
            await asyncio.sleep(31)
        assert [] == cluster.network.requests(A) + cluster.network.requests(B)

    virtually(story)


def test_a_shared_cluster_has_its_own_heartbeats() -> None:
    async def story() -> None:
        cluster = scripted()
        async with Producer(cluster=cluster.client) as producer:
            await producer.send("orders", b"x", queue=AT_A)
            await asyncio.sleep(31)
        assert [] == beats(cluster, A) + cluster.asked(A, RequestCode.UNREGISTER_CLIENT)
        await cluster.client.close()

    virtually(story)


def test_the_built_in_broker_hears_of_it_too_and_for_as_long_as_it_is_there() -> None:
    """It is the name server as well, so that it is connected to before anything says that it is a broker."""

    async def scenario(story: Story) -> None:
        await story.cluster.start_broker()
        await story.cluster.start_producer()
        await story.send("orders", 1)
        producer, broker = story.cluster.producing, story.cluster.broker.broker
        assert producer is not None
        assert broker is not None
        client_id, groups = producer.cluster.options.client_id, (producer._group, "askers")
        await producer.cluster.introductions.join("askers")
        for length in ("1s", "3m"):  # a broker forgets whom it has not heard of for two minutes
            await story.sleep(length)
            known = [broker.nodes[0].members.producers(group) for group in groups]
            assert [[client_id]] * 2 == [[each.client_id for each in members] for members in known]
            assert broker.nodes[0].members.producer(client_id) is not None

    tell(scenario, Cluster(apps=0))
