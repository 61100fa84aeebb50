"""Pool: shared connects, back-off, purposes, where an address leads, which are allowed; in memory, in virtual time."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from framework.errors import BrokerUnreachable, ConfigurationError, ConnectionLost, is_said
from framework.net.channel import Channel
from framework.net.credentials import Credentials
from framework.net.pool import BACKOFF_MAX_SECONDS, Pool
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.net.memory import MemoryNetwork, Peer, echo, virtually, world_with

A = "10.0.0.1:10911"


def pool_on(network: MemoryNetwork, **options: Any) -> Pool:
    return Pool(world_with(network), **options)


def ask(**fields: str) -> RemotingCommand:
    return RemotingCommand(RequestCode.GET_MAX_OFFSET, fields)


def test_concurrent_callers_share_one_connection() -> None:
    async def story() -> tuple[list[str], int]:
        network = MemoryNetwork()
        network.scripts[A] = echo
        pool = pool_on(network)
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(pool.request(A, ask(n=str(n)), timeout_ms=3000)) for n in range(20)]
        answers = [(await task).fields["n"] for task in tasks]
        assert [str(n) for n in range(20)] == answers
        await pool.close()
        return network.dialled, len(network.peers)

    assert ([A], 1) == virtually(story)


def test_pulls_have_a_connection_of_their_own_that_can_be_paused() -> None:
    async def story() -> tuple[list[str], bool]:
        network = MemoryNetwork()
        network.scripts[A] = echo
        pool = pool_on(network)
        requests, pulls = await pool.channel(A), await pool.channel(A, "pulls")
        assert requests is not pulls
        assert pulls is await pool.channel(A, "pulls")
        pool.pause_pulls(paused=True)
        pull = pulls.request_now(ask(), timeout_ms=3000)
        await requests.request(ask(), timeout_ms=3000)
        await asyncio.sleep(10)
        was_done = pull.done()
        pool.pause_pulls(paused=False)
        await pull
        await pool.close()
        return network.dialled, was_done

    assert ([A, A], False) == virtually(story)


def test_a_connection_for_pulls_made_while_paused_is_paused() -> None:
    async def story() -> bool:
        network = MemoryNetwork()
        network.scripts[A] = echo
        pool = pool_on(network)
        pool.pause_pulls(paused=True)
        pull = (await pool.channel(A, "pulls")).request_now(ask(), timeout_ms=3000)
        await asyncio.sleep(10)
        was_done = pull.done()
        pool.pause_pulls(paused=False)
        await pull
        await pool.close()
        return was_done

    assert not virtually(story)


def test_a_failed_address_is_left_alone_for_longer_each_time() -> None:
    """Callers meanwhile fail at once with the last reason, so that they can turn to another broker."""

    async def story() -> tuple[list[float], str]:
        network = MemoryNetwork()
        pool = pool_on(network)
        loop = asyncio.get_running_loop()
        pauses, before, reason = [], 0.0, ""
        for attempt in range(1, 12):
            while len(network.dialled) < attempt:
                try:
                    await pool.channel(A)
                except BrokerUnreachable as error:
                    reason = str(error)
                await asyncio.sleep(0.01)
            pauses.append(loop.time() - before)
            before = loop.time()
        await pool.close()
        return pauses[1:], reason

    pauses, reason = virtually(story)

    assert "10.0.0.1:10911: connection refused" in reason
    for pause, ceiling in zip(pauses, [min(0.1 * 2**n, BACKOFF_MAX_SECONDS) for n in range(10)], strict=True):
        assert ceiling / 2 <= pause <= ceiling + 0.1


def test_during_back_off_nothing_is_dialled() -> None:
    async def story() -> int:
        network = MemoryNetwork()
        pool = pool_on(network)
        for _ in range(50):
            with pytest.raises(BrokerUnreachable):
                await pool.channel(A)
        await pool.close()
        return len(network.dialled)

    assert 1 == virtually(story)


def loud(lines: list[Any]) -> list[tuple[str, Any]]:
    """Above debug: the event, and of a connection what it is for."""
    return [(line["event"], line.get("purpose")) for line in lines if line["log_level"] != "debug"]


def test_connected_is_said_when_somebody_has_answered_with_more_than_a_refusal() -> None:
    """What listens may be a proxy without a broker behind it, or know neither user nor key."""

    async def story() -> list[int]:
        codes = [ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION, ResponseCode.TOPIC_NOT_EXIST, 0, 0]
        network = MemoryNetwork()
        network.scripts[A] = lambda peer, request: RemotingCommand(codes.pop(0))
        pool, told = pool_on(network), []
        await pool.channel(A, "pulls")
        for _ in range(4):
            await pool.request(A, ask(), timeout_ms=3000)
            told.append(len(loud(lines)))
        network.peers[1][1].pipe.cut(ConnectionResetError(104, "reset"))
        await asyncio.sleep(0.01)
        await pool.channel(A)
        told.append(len(loud(lines)))
        await pool.request(A, ask(), timeout_ms=3000)
        await pool.close()
        return told

    with capture_logs() as lines:
        told = virtually(story)

    assert [0, 0, 2, 2, 3] == told
    pulls, requests = ("connected", "pulls"), ("connected", "requests")
    assert [pulls, requests, ("disconnected", "requests"), requests] == loud(lines)[:4]
    assert ["after_ms" in line for line in lines if line["event"] == "connected"] == [False, False, True]


def test_a_peer_that_falls_silent_is_said_once_and_first_and_is_back_when_it_answers() -> None:
    """One that hangs goes on taking connections: its system does."""

    async def story() -> list[bool]:
        network, is_silent, said = MemoryNetwork(), False, list[bool]()

        def hang(peer: Peer, request: RemotingCommand) -> RemotingCommand | None:
            return None if is_silent else RemotingCommand(0)

        network.scripts[A] = hang
        pool = pool_on(network)
        await pool.request(A, ask(), timeout_ms=3000)
        is_silent = True
        for _ in range(12):
            try:
                await pool.request(A, ask(), timeout_ms=3000)
            except BrokerUnreachable as error:
                said.append(is_said(error))
            await asyncio.sleep(1)
        assert pool.is_away(A)
        is_silent = False
        await asyncio.sleep(10)
        await pool.request(A, ask(), timeout_ms=3000)
        assert not pool.is_away(A)
        await pool.close()
        return said

    with capture_logs() as lines:
        said = virtually(story)

    assert [False] + [True] * 11 == said, "one wait may be that request's fault"
    assert ["connected", "disconnected", "not connected", "connected"] == [event for event, _ in loud(lines)][:4]
    (warning,) = [line for line in lines if line["log_level"] == "warning"]
    assert "not one byte within 3 s of a request" == warning["reason"]


def test_a_connection_closed_without_a_word_counts_as_a_failure() -> None:
    """A proxy whose broker is down accepts and closes: without this, we would dial it in a tight loop."""

    def hang_up(peer: Peer, request: RemotingCommand) -> None:
        peer.pipe.close()

    async def story() -> str:
        network = MemoryNetwork()
        network.scripts[A] = hang_up
        pool = pool_on(network)
        with pytest.raises(ConnectionLost, match="closed by the peer"):
            await pool.request(A, ask(), timeout_ms=3000)
        await asyncio.sleep(0.001)
        with pytest.raises(
            BrokerUnreachable, match=r"closed by the peer, without a word; .*; tried again in"
        ) as caught:
            await pool.request(A, ask(), timeout_ms=3000)
        await pool.close()
        return str(caught.value)

    assert virtually(story).startswith(A)


def test_a_lost_connection_that_had_worked_is_made_again_at_once() -> None:
    async def story() -> list[str]:
        network = MemoryNetwork()
        network.scripts[A] = echo
        connected: list[str] = []
        pool = pool_on(network, on_connected=connected.append)
        for _ in range(3):
            await pool.request(A, ask(), timeout_ms=3000)
            network.peers[-1][1].pipe.cut(ConnectionResetError(104, "reset"))
            await asyncio.sleep(0.01)
            assert not pool.is_connected(A)
        await pool.channel(A, "pulls")
        await pool.close()
        return connected

    assert [A, A, A] == virtually(story)


def test_pulls_that_connect_again_put_the_other_connection_in_doubt() -> None:
    """It may be half open to a process that is gone, with whatever that one had granted."""

    async def story() -> list[int]:
        network = MemoryNetwork()
        network.scripts[A] = echo
        lost: list[str] = []
        told = []
        pool = pool_on(network, on_disconnected=lost.append)
        await pool.request(A, ask(), timeout_ms=3000)
        await pool.request(A, ask(), timeout_ms=3000, purpose="pulls")
        told.append(len(lost))
        network.peers[-1][1].pipe.cut(ConnectionResetError(104, "reset"))
        await asyncio.sleep(0.01)
        told.append(len(lost))
        await pool.channel(A, "pulls")
        told.append(len(lost))
        await pool.close()
        return told

    assert [0, 1, 2] == virtually(story)


def test_go_away_sends_the_request_once_more_on_a_fresh_connection() -> None:
    def first_connection_goes(peer: Peer, request: RemotingCommand) -> RemotingCommand:
        is_first = peer is network_of[0].peers[0][1]
        return RemotingCommand(ResponseCode.GO_AWAY if is_first else 0)

    network_of: list[MemoryNetwork] = []

    async def story() -> tuple[int, int, bool]:
        network = MemoryNetwork()
        network_of.append(network)
        network.scripts[A] = first_connection_goes
        pool = pool_on(network)
        answer = await pool.request(A, ask(), timeout_ms=3000)
        await asyncio.sleep(0.01)
        await pool.close()
        return answer.code, len(network.peers), network.peers[0][1].is_lost

    assert (0, 2, True) == virtually(story)


def test_an_advertised_address_is_mapped_to_a_reachable_one() -> None:
    async def story() -> tuple[list[str], str]:
        network = MemoryNetwork()
        network.scripts["127.0.0.1:30911"] = echo
        pool = pool_on(network, address_map={"172.17.0.2:10911": "127.0.0.1:30911", "10.0.0.9:1": "127.0.0.1:2"})
        channel = await pool.channel("172.17.0.2:10911")
        with pytest.raises(BrokerUnreachable, match=r"10.0.0.9:1: .*refused \(by way of 127.0.0.1:2\)"):
            await pool.channel("10.0.0.9:1")
        await pool.close()
        return network.dialled, channel.peer

    assert (["127.0.0.1:30911", "127.0.0.1:2"], "172.17.0.2:10911") == virtually(story)


def test_only_allowed_networks_are_dialled_but_name_servers_always() -> None:
    async def story() -> list[str]:
        network = MemoryNetwork()
        for address in (A, "169.254.169.254:80", "192.168.0.1:9876", "broker:10911"):
            network.scripts[address] = echo
        pool = pool_on(network, allow=["10.0.0.0/8"], trusted=["http://192.168.0.1:9876"])
        await pool.channel(A)
        await pool.channel("192.168.0.1:9876")
        for address, host in (("169.254.169.254:80", "169.254.169.254"), ("broker:10911", r"broker \(broker\)")):
            with pytest.raises(ConfigurationError, match=rf"{host} is not in cluster.allow \(10.0.0.0/8\)"):
                await pool.channel(address)
        await pool.close()
        return network.dialled

    # A name can only be judged by the address that it led to: it is dialled, and no byte is sent.
    assert [A, "192.168.0.1:9876", "broker:10911"] == virtually(story)


@pytest.mark.parametrize("told", ["169.254.169.254:80", "[fe80::1]:10911", "[::ffff:169.254.169.254]:80"])
def test_a_link_local_address_that_a_name_server_tells_is_not_dialled(told: str) -> None:
    async def story() -> list[str]:
        network = MemoryNetwork()
        network.scripts[told] = echo
        pool = pool_on(network)
        with pytest.raises(
            ConfigurationError, match=r"link-local, metadata or multicast address; add it to cluster\.allow"
        ):
            await pool.channel(told)
        await pool.close()
        return network.dialled

    assert [] == virtually(story)


@pytest.mark.parametrize("address", ["10.0.0.1:0", "10.0.0.1:99999", "x" * 10_240 + ":1", "10.0.0.1", "[::1:1"])
def test_an_address_that_cannot_be_dialled_is_named(address: str) -> None:
    async def story() -> None:
        network = MemoryNetwork()
        pool = pool_on(network)
        with pytest.raises(ConfigurationError, match="broker address"):
            await pool.channel(address)
        assert [] == network.dialled
        await pool.close()

    virtually(story)


def test_a_caller_that_gives_up_does_not_end_the_attempt_of_the_others() -> None:
    async def story() -> bool:
        network = MemoryNetwork()
        network.scripts[A] = echo
        network.delay = 1.0
        pool = pool_on(network)
        loop = asyncio.get_running_loop()
        first = loop.create_task(pool.channel(A))
        second = loop.create_task(pool.channel(A))
        await asyncio.sleep(0.5)
        first.cancel()
        channel = await second
        await pool.close()
        return first.cancelled() and isinstance(channel, Channel)

    assert virtually(story)


def test_connecting_is_bounded() -> None:
    async def story() -> float:
        network = MemoryNetwork()
        network.scripts[A] = echo
        network.delay = 60.0
        pool = pool_on(network)
        with pytest.raises(BrokerUnreachable, match=r"10.0.0.1:10911: no connection in 3 s"):
            await pool.channel(A)
        elapsed = asyncio.get_running_loop().time()
        await pool.close()
        return elapsed

    assert 3 <= virtually(story) < 3.1


def test_a_closed_pool_ends_attempts_and_connects_no_more() -> None:
    async def story() -> None:
        network = MemoryNetwork()
        network.scripts[A] = echo
        network.delay = 1.0
        pool = pool_on(network)
        waiting = asyncio.get_running_loop().create_task(pool.channel(A))
        await asyncio.sleep(0.1)
        await pool.close()
        for attempt in (waiting, pool.channel(A)):
            with pytest.raises(BrokerUnreachable, match="the connections of this process were closed"):
                await attempt

    virtually(story)


def test_requests_are_signed_with_the_credentials() -> None:
    async def story() -> dict[str, str]:
        network = MemoryNetwork()
        network.scripts[A] = echo
        pool = pool_on(network, credentials=Credentials("RocketMQ", "12345678"))
        answer = await pool.request(A, ask(topic="TopicTest"), timeout_ms=3000)
        await pool.close()
        return answer.fields

    fields = virtually(story)

    assert "RocketMQ" == fields["AccessKey"]
    assert 28 == len(fields["Signature"])


def test_a_secret_shows_in_no_repr() -> None:
    assert "12345678" not in repr(Credentials("RocketMQ", "12345678", "token-77"))
    assert "token-77" not in repr(Credentials("RocketMQ", "12345678", "token-77"))


def test_tls_errors_are_named_and_never_lead_to_plain_text() -> None:
    """There is no silent fall-back."""

    class NoTls(MemoryNetwork):
        async def connect(self, owner: Any, host: str, port: int, *, tls: Any = None, server_name: Any = None) -> None:
            self.dialled.append(f"{host} tls={tls is not None} name={server_name}")
            raise ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")

    async def story() -> list[str]:
        from framework.net.tls import TlsOptions

        network = NoTls()
        pool = pool_on(network, tls=TlsOptions(server_name="broker.example"))
        with pytest.raises(BrokerUnreachable, match="peer does not speak TLS here"):
            await pool.channel(A)
        await pool.close()
        return network.dialled

    assert ["10.0.0.1 tls=True name=broker.example"] == virtually(story)


def test_the_pool_s_repr_is_an_instrument_panel() -> None:
    async def story() -> tuple[str, str]:
        network = MemoryNetwork()
        network.scripts[A] = echo
        pool = pool_on(network)
        empty = repr(pool)
        await pool.channel(A)
        full = repr(pool)
        await pool.close()
        return empty, full

    assert ("<Pool empty>", f"<Pool {A} requests <Channel {A} open waiting=0>>") == virtually(story)


def test_addresses_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers move for months, or a name server lies: the pool must not grow for ever."""
    monkeypatch.setattr("framework.net.pool.LINKS_MAX", 8)

    async def story() -> tuple[int, bool]:
        network = MemoryNetwork()
        network.scripts[A] = echo
        pool = pool_on(network)
        await pool.channel(A)
        for number in range(40):
            with pytest.raises(BrokerUnreachable):
                await pool.channel(f"10.1.0.{number}:10911")
            await asyncio.sleep(1)
        count, is_connected = len(pool._links), pool.is_connected(A)
        await pool.close()
        return count, is_connected

    count, is_connected = virtually(story)

    assert count <= 8
    assert is_connected


class Leaving:
    """A channel that was closed; so many bytes are left at each look, and it is closed once there are none."""

    def __init__(self, *left: int) -> None:
        self.left, self.looks = left, 0
        loop = asyncio.get_running_loop()
        self.closed, self.began = loop.create_future(), loop.time()
        self.aborted_at: float | None = None

    @property
    def unwritten(self) -> int:
        second = round(asyncio.get_running_loop().time() - self.began)
        return self.left[min(second, len(self.left) - 1)]

    def abort(self, reason: str) -> None:
        self.aborted_at = round(asyncio.get_running_loop().time() - self.began, 1)
        self.closed.set_result(None)


def test_a_close_waits_while_bytes_leave_and_gives_up_where_none_do() -> None:
    async def story() -> list[float | None]:
        pool = pool_on(MemoryNetwork())
        channels = [Leaving(900, 600, 300, 0), Leaving(900), Leaving(*range(10_000, 0, -100))]
        asyncio.get_running_loop().call_later(3.5, channels[0].closed.set_result, None)
        await pool._written_out(cast("list[Channel]", channels))
        await pool.close()
        return [channel.aborted_at for channel in channels]

    assert [None, 1.0, 10.0] == virtually(story)
