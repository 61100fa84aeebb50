"""NameServer: one is chosen and kept, another takes over, and what no server answered is an error."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import structlog

from framework.client.name_server import NameServer
from framework.errors import BrokerUnreachable, ProtocolError, Refused
from framework.net.pool import Pool
from framework.wire.command import RemotingCommand
from tests.client.script import A, route_of
from tests.net.memory import Answer, MemoryNetwork, Peer, virtually, world_with

SERVERS = ("10.0.0.1:9876", "10.0.0.2:9876", "10.0.0.3:9876")


class FirstChance:
    """Chooses the first of anything."""

    def random(self) -> float:
        return 0.5

    def below(self, limit: int) -> int:
        return 0

    def token(self, count: int) -> bytes:
        return bytes(count)


def knows(peer: Peer, request: RemotingCommand) -> RemotingCommand:
    return RemotingCommand(0, body=route_of({"a": {0: A}}))


def says(code: int, remark: str = "") -> Answer:
    return lambda peer, request: RemotingCommand(code, remark=remark)


async def serve(network: MemoryNetwork, servers: tuple[str, ...] = SERVERS) -> tuple[NameServer, Pool]:
    pool = Pool(world_with(network))
    return NameServer(pool, servers, FirstChance()), pool


def test_a_route_is_asked_for_in_standard_json() -> None:
    async def story() -> tuple[dict[str, str], int, Any]:
        network = MemoryNetwork()
        network.scripts["10.0.0.1:9876"] = knows
        names, pool = await serve(network)
        route = await names.route("orders")
        await pool.close()
        request = network.requests("10.0.0.1:9876")[0]
        return request.fields, request.version, route

    fields, version, route = virtually(story)

    assert {"topic": "orders", "acceptStandardJsonOnly": "true"} == fields
    assert version >= 401
    assert ["a"] == [broker.broker_name for broker in route.brokers]


def test_the_chosen_server_is_kept_until_it_fails() -> None:
    async def story() -> tuple[list[str], list[int]]:
        network = MemoryNetwork()
        for server in SERVERS[1:]:
            network.scripts[server] = knows
        names, pool = await serve(network)
        for _ in range(5):
            await names.route("orders")
        await pool.close()
        return network.dialled, [len(network.requests(server)) for server in SERVERS]

    assert (["10.0.0.1:9876", "10.0.0.2:9876"], [0, 5, 0]) == virtually(story)


def test_an_unknown_topic_is_no_error() -> None:
    async def story() -> object:
        network = MemoryNetwork()
        network.scripts[SERVERS[0]] = says(17, "No topic route info")
        names, pool = await serve(network)
        route = await names.route("orders")
        await pool.close()
        return route

    assert virtually(story) is None


def test_a_server_that_refuses_is_passed_over() -> None:
    async def story() -> list[int]:
        network = MemoryNetwork()
        network.scripts[SERVERS[0]] = says(1, "busy")
        network.scripts[SERVERS[1]] = knows
        names, pool = await serve(network)
        assert await names.route("orders") is not None
        await pool.close()
        return [len(network.requests(server)) for server in SERVERS]

    assert [1, 1, 0] == virtually(story)


def test_when_all_refuse_the_last_refusal_is_raised() -> None:
    async def story() -> None:
        network = MemoryNetwork()
        for server in SERVERS:
            network.scripts[server] = says(2, "[OVERLOAD]")
        names, pool = await serve(network)
        with pytest.raises(
            Refused, match=r"GET_ROUTEINFO_BY_TOPIC \(105\) refused by 10.0.0.3:9876: code 2, \[OVERLOAD"
        ):
            await names.route("orders")
        await pool.close()

    virtually(story)


def test_when_none_answers_all_are_named_and_it_is_logged_once() -> None:
    async def story() -> list[str]:
        network = MemoryNetwork()
        names, pool = await serve(network)
        with structlog.testing.capture_logs() as logs:
            for _ in range(3):
                with pytest.raises(BrokerUnreachable) as caught:
                    await names.route("orders")
                said = str(caught.value)
                assert said.startswith("no name server answers: ")
                assert all(f"{server}: connection refused" in said for server in SERVERS)
                assert said.endswith("; check cluster.name_servers (--name-server)")
            network.scripts = dict.fromkeys(SERVERS, knows)
            for pause in range(100):
                try:
                    await names.route("orders")
                    break
                except BrokerUnreachable:
                    await asyncio.sleep(pause / 10)
        await pool.close()
        return [entry["event"] for entry in logs if entry["event"].startswith("name server")]

    assert ["name server unreachable", "name server recovered"] == virtually(story)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", json.dumps({"queueDatas": 7}).encode()])
def test_a_route_that_is_none_names_topic_and_server(body: bytes) -> None:
    async def story() -> None:
        network = MemoryNetwork()
        network.scripts[SERVERS[0]] = lambda peer, request: RemotingCommand(0, body=body)
        names, pool = await serve(network)
        with pytest.raises(ProtocolError, match=r"10\.0\.0\.1:9876: route of orders: "):
            await names.route("orders")
        await pool.close()

    virtually(story)
