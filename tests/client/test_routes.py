"""RouteTable: cached, shared, kept when the name server is away, checked, and told only on real change."""

from __future__ import annotations

import asyncio

import pytest
import structlog

from framework.client.routes import RouteTable
from framework.errors import BrokerUnreachable, ProtocolError
from framework.model.queue import MessageQueue
from framework.net.route import Contact, Doubt, Route
from tests.client.script import NS, A, B, ScriptedCluster, route_of
from tests.net.memory import virtually
from tests.services.parts import EvenChance


def queues(topic: str, *brokers: str, count: int = 2) -> list[MessageQueue]:
    return [MessageQueue(topic, broker, number) for broker in brokers for number in range(count)]


def test_queues_come_sorted_and_from_the_cache() -> None:
    async def story() -> tuple[list[MessageQueue], int]:
        cluster = ScriptedCluster(name_servers=(NS,))
        cluster.routes["orders"] = route_of({"b": {0: B}, "a": {0: A}})
        routes = cluster.client.routes
        first = await routes.queues("orders")
        assert first == await routes.queues("orders")
        await cluster.client.close()
        return first, len(cluster.network.requests(NS))

    assert (queues("orders", "a", "b"), 1) == virtually(story)


def test_callers_at_the_same_time_share_one_question() -> None:
    async def story() -> int:
        cluster = ScriptedCluster()
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(cluster.client.routes.queues("orders")) for _ in range(10)]
        for task in tasks:
            await task
        await cluster.client.close()
        return len(cluster.network.requests(NS))

    assert 1 == virtually(story)


def test_permissions_decide_what_is_read_and_written() -> None:
    async def story() -> list[tuple[int, int]]:
        cluster = ScriptedCluster()
        counts: list[tuple[int, int]] = []
        for perm, brokers in ((6, {"a": {0: A}}), (4, {"a": {0: A}}), (2, {"a": {0: A}}), (6, {"a": {1: A}})):
            topic = f"topic-{len(counts)}"
            cluster.routes[topic] = route_of(brokers, read=3, write=5, perm=perm)
            routes = cluster.client.routes
            counts.append((len(await routes.queues(topic)), len(await routes.writable_queues(topic))))
        await cluster.client.close()
        return counts

    # Read-write; read only; write only; no master, so nothing can be sent there.
    assert [(3, 5), (3, 0), (0, 5), (3, 0)] == virtually(story)


def test_an_unknown_topic_has_no_queues_and_is_asked_for_again() -> None:
    async def story() -> tuple[list[MessageQueue], list[MessageQueue]]:
        cluster = ScriptedCluster()
        before = await cluster.client.routes.queues("new")
        cluster.routes["new"] = route_of({"a": {0: A}})
        after = await cluster.client.routes.queues("new")
        await cluster.client.close()
        return before, after

    assert ([], queues("new", "a")) == virtually(story)


def test_a_look_for_a_topic_is_one_question_and_is_not_kept_in_mind() -> None:
    async def story() -> tuple[list[bool], list[MessageQueue], int]:
        cluster = ScriptedCluster(name_servers=(NS,))
        routes = cluster.client.routes
        known = [await routes.knows("new")]
        refreshing = asyncio.get_running_loop().create_task(routes.run())
        await asyncio.sleep(100)
        refreshing.cancel()
        cluster.routes["new"] = route_of({"a": {0: A}})
        known += [await routes.knows("new"), await routes.knows("new")]
        found = await routes.queues("new")
        await cluster.client.close()
        return known, found, len(cluster.network.requests(NS))

    assert ([False, True, True], queues("new", "a"), 2) == virtually(story)


def test_the_loop_refreshes_each_thirty_seconds_and_tells_of_real_changes_only() -> None:
    async def story() -> tuple[list[str], int]:
        cluster = ScriptedCluster()
        told: list[str] = []
        routes = cluster.client.routes
        routes.on_change(told.append)
        await routes.queues("orders")
        told.clear()
        task = asyncio.get_running_loop().create_task(routes.run())
        await asyncio.sleep(100)
        unchanged = list(told)
        asked = len(cluster.network.requests(NS))
        cluster.routes["orders"] = route_of({"a": {0: A}, "b": {0: "10.0.0.5:10911"}})
        await asyncio.sleep(34)
        assert "10.0.0.5:10911" == routes.address_of("b")
        task.cancel()
        await cluster.client.close()
        return unchanged + told, asked

    told, asked = virtually(story)

    assert ["orders"] == told
    assert 4 <= asked <= 5


def test_a_wish_refreshes_soon_but_not_all_the_time() -> None:
    async def story() -> int:
        cluster = ScriptedCluster()
        routes = cluster.client.routes
        await routes.queues("orders")
        task = asyncio.get_running_loop().create_task(routes.run())
        for _ in range(100):
            await asyncio.sleep(0.1)
            routes.refresh_soon()
        task.cancel()
        await cluster.client.close()
        return len(cluster.network.requests(NS))

    assert 2 <= virtually(story) <= 4


def test_the_old_route_is_kept_while_no_name_server_answers() -> None:
    async def story() -> tuple[list[str], list[MessageQueue], str]:
        cluster = ScriptedCluster()
        routes = cluster.client.routes
        await routes.queues("orders")
        task = asyncio.get_running_loop().create_task(routes.run())
        with structlog.testing.capture_logs() as logs:
            script = cluster.network.scripts.pop(NS)
            for address, peer in cluster.network.peers:
                if address == NS:
                    peer.pipe.cut()
            await asyncio.sleep(120)
            kept, address = await routes.queues("orders"), routes.address_of("a")
            cluster.network.scripts[NS] = script
            await asyncio.sleep(60)
        task.cancel()
        await cluster.client.close()
        return [entry["event"] for entry in logs if entry["event"].startswith("route ")], kept, address

    assert (["route not refreshed", "route refreshed again"], queues("orders", "a", "b"), A) == virtually(story)


def test_a_name_server_that_forgot_a_topic_does_not_end_it() -> None:
    """A name server that was just started knows nothing until its brokers have registered."""

    async def story() -> list[MessageQueue]:
        cluster = ScriptedCluster()
        routes = cluster.client.routes
        await routes.queues("orders")
        del cluster.routes["orders"]
        await routes.refresh("orders")
        kept = await routes.queues("orders")
        await cluster.client.close()
        return kept

    assert queues("orders", "a", "b") == virtually(story)


def test_a_broker_that_no_route_names_any_more_is_forgotten() -> None:
    async def story() -> tuple[list[str], list[str]]:
        cluster = ScriptedCluster()
        routes = cluster.client.routes
        await routes.queues("orders")
        before = routes.masters()
        cluster.routes["orders"] = route_of({"a": {0: A}})
        await routes.refresh("orders")
        after = routes.masters()
        with pytest.raises(BrokerUnreachable, match=r"broker b: no master in any known route \(brokers known: a\)"):
            routes.address_of("b")
        await cluster.client.close()
        return before, after

    assert ([A, B], [A]) == virtually(story)


def test_replicas_are_found_by_id() -> None:
    async def story() -> list[str | None]:
        cluster = ScriptedCluster()
        cluster.routes["orders"] = route_of({"a": {0: A, 1: B}})
        await cluster.client.routes.queues("orders")
        found = [cluster.client.routes.find("a", number) for number in (0, 1, 2)]
        await cluster.client.close()
        return [*found, cluster.client.routes.find("z", 0)]

    assert [A, B, None, None] == virtually(story)


@pytest.mark.parametrize(
    "route",
    [
        route_of({"a": {0: A}}, read=2**31 - 1),
        route_of({"a": {0: A}}, write=2**31 - 1),
        route_of({f"broker-{number}": {0: A} for number in range(1_100)}),
        route_of({f"broker-{number}": {0: A} for number in range(1_000)}, read=100),
    ],
)
def test_a_route_past_the_limits_is_refused(route: bytes) -> None:
    """Nothing is built before the counts were looked at."""

    async def story() -> None:
        cluster = ScriptedCluster()
        cluster.routes["orders"] = route
        with pytest.raises(ProtocolError, match=r"route of orders (has|names) \d+ (queues|brokers), above the limit"):
            await cluster.client.routes.queues("orders")
        await cluster.client.close()

    virtually(story)


@pytest.mark.parametrize(
    "address", ["10.0.0.1:0", "10.0.0.1:99999", "10.0.0.1:-1", "x" * 10_240 + ":1", "nonsense", ""]
)
def test_an_address_that_cannot_be_dialled_is_named_and_its_queues_stay(address: str) -> None:
    """All members must divide the same queues, whatever each of them can reach."""

    async def story() -> tuple[list[MessageQueue], list[str], list[str]]:
        cluster = ScriptedCluster()
        cluster.routes["orders"] = route_of({"a": {0: address}, "b": {0: B}})
        with structlog.testing.capture_logs() as logs:
            found = await cluster.client.routes.queues("orders")
        masters = cluster.client.routes.masters()
        with pytest.raises(BrokerUnreachable, match="broker a: no master"):
            cluster.client.routes.address_of("a")
        await cluster.client.close()
        return found, masters, [entry["reason"] for entry in logs if entry["event"] == "broker address refused"]

    found, masters, reasons = virtually(story)

    assert queues("orders", "a", "b") == found
    assert [B] == masters
    assert 1 == len(reasons)
    assert len(reasons[0]) < 300


def test_a_broker_that_is_left_out_is_kept_while_it_answers_and_not_for_ever() -> None:
    def connected(_: str) -> Contact:
        return Contact(-100.0, is_open=True)

    both, first, doubt = known("a", "b"), known("a"), Doubt()
    assert both == doubt.resolve(both, first, connected, 0.0)
    assert {"b": 0.0} == doubt.missing
    assert both == doubt.resolve(both, both, connected, 20.0), "it has registered"
    assert {} == doubt.missing
    assert both == doubt.resolve(both, first, connected, 30.0)
    assert both == doubt.resolve(both, first, connected, 64.9)
    assert first == doubt.resolve(both, first, connected, 65.0)
    assert first == doubt.resolve(None, first, connected, 70.0)


def test_a_broker_that_went_away_is_expected_back_for_reading_for_as_long_as_a_restart_takes() -> None:
    both, first, contacts = known("a", "b"), known("a"), dict[str, Contact]()
    doubt = Doubt()

    def resolved(now: float) -> Route:
        return doubt.resolve(both, first, contacts.get, now)

    assert first == resolved(0.0), "nobody here ever knew it"
    contacts[B] = Contact(10.0, is_open=False)
    away = resolved(12.0)
    assert (both.readable, both.addresses, first.writable) == (away.readable, away.addresses, away.writable)
    assert {"b": 10.0} == away.away
    contacts[B] = Contact(40.0, is_open=True)
    assert both == resolved(40.0), "it is there, and has not registered yet"
    assert both == resolved(74.9)
    assert first == resolved(75.0)
    contacts[B] = Contact(20.0, is_open=False)
    doubt = Doubt()
    assert {"b": 20.0} == resolved(109.9).away
    assert first == resolved(110.0)
    assert doubt.is_open, "it is looked for a while yet"
    assert first == doubt.resolve(first, first, contacts.get, 709.9)
    assert doubt.is_open
    assert both == doubt.resolve(first, both, contacts.get, 709.9)
    assert not doubt.is_open


def test_a_broker_that_comes_and_goes_unregistered_is_not_kept_for_ever() -> None:
    route, first, doubt = known("a", "b"), known("a"), Doubt()
    kept = 0
    for second in range(0, 300, 5):
        contact = Contact(second - 1.0, is_open=second % 2 > 0)
        route = doubt.resolve(route, first, {B: contact}.get, second)
        kept = second if "b" in route.addresses else kept
    assert 120 == kept, "as long as one that is away, and as it takes to register"


def test_listeners_are_told_that_a_broker_is_away_and_that_it_is_back() -> None:
    """Its queues are divided as long as all members expect it back, and members may have come meanwhile."""

    async def story() -> list[list[int]]:
        cluster, contacts, told, found = ScriptedCluster(), dict[str, Contact](), list[str](), list[list[int]]()
        table = RouteTable(cluster.client.names, EvenChance(), contacts.get)
        table.on_change(told.append)
        now = asyncio.get_running_loop().time()
        away, back = Contact(now, is_open=False), Contact(now, is_open=True)
        for names, contact in ("ab", None), ("a", away), ("a", back), ("ab", back):
            cluster.routes["orders"] = route_of({name: {0: {"a": A, "b": B}[name]} for name in names})
            if contact is not None:
                contacts[B] = contact
            await table.refresh("orders")
            found.append([len(told), len(await table.queues("orders")), len(table.away("orders"))])
        await table.close()
        await cluster.client.close()
        return found

    assert [[1, 4, 0], [2, 4, 1], [3, 4, 0], [3, 4, 0]] == virtually(story)


def known(*brokers: str) -> Route:
    found = {broker: {0: {"a": A, "b": B}[broker]} for broker in brokers}
    return Route(tuple(queues("orders", *brokers)), tuple(queues("orders", *brokers)), found)
