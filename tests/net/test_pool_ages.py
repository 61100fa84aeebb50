"""How old a connection is, and how long an address was away: in milliseconds, each of the connection that is meant."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from framework.net.pool import Pool
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.net.memory import MemoryNetwork, echo, virtually, world_with

A, B = "10.0.0.1:10911", "10.0.0.2:10911"


def pool_on(*addresses: str) -> tuple[MemoryNetwork, Pool]:
    network = MemoryNetwork()
    network.scripts |= dict.fromkeys(addresses, echo)
    return network, Pool(world_with(network))


def cut(network: MemoryNetwork, address: str) -> None:
    for known, peer in network.peers:
        if known == address:
            peer.pipe.cut()


def test_a_connection_s_age_is_in_milliseconds_and_begins_anew_with_the_next_one() -> None:
    """Members are kept by it that a young broker does not list: in seconds each connection would be young for ever."""

    async def story() -> list[int]:
        network, pool = pool_on(A)
        ages = [pool.connected_ms(A)]
        await pool.channel(A)
        ages.append(pool.connected_ms(A))
        await asyncio.sleep(2.5)
        ages.append(pool.connected_ms(A))
        cut(network, A)
        await asyncio.sleep(0.5)
        ages.append(pool.connected_ms(A))
        await asyncio.sleep(1.5)
        await pool.channel(A)
        await asyncio.sleep(0.25)
        ages.append(pool.connected_ms(A))
        await pool.close()
        return ages

    assert [0, 0, 2500, 0, 250] == pytest.approx(virtually(story), abs=5)


def test_it_is_the_age_of_the_connection_for_requests_and_of_this_address() -> None:
    async def story() -> list[int]:
        _, pool = pool_on(A, B)
        await pool.channel(A, "pulls")
        await pool.channel(B)
        await asyncio.sleep(3)
        ages = [pool.connected_ms(A), pool.connected_ms(B)]
        await pool.channel(A)
        await asyncio.sleep(1)
        ages += [pool.connected_ms(A), pool.connected_ms(B)]
        await pool.close()
        return ages

    assert [0, 3000, 1000, 4000] == pytest.approx(virtually(story), abs=5)


def test_how_long_an_address_was_away_is_said_once_and_counted_from_its_end() -> None:
    async def story() -> None:
        network, pool = pool_on(A)
        for _ in range(2):
            await pool.request(A, RemotingCommand(RequestCode.GET_MAX_OFFSET), timeout_ms=3000)
            cut(network, A)
            await asyncio.sleep(12)
        await pool.request(A, RemotingCommand(RequestCode.GET_MAX_OFFSET), timeout_ms=3000)
        await pool.close()

    with capture_logs() as lines:
        virtually(story)
    after = [line.get("after_ms") for line in lines if line["event"] == "connected"]
    assert [None, pytest.approx(12_000, abs=50), pytest.approx(12_000, abs=50)] == after
