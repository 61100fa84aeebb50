"""SimNetwork and StormyNetwork: TCP's manners in memory, and every way in which a connection can go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from framework.testing.errors import SimEscape
from framework.testing.sim.network import Weather
from framework.testing.sim.node import Node
from framework.testing.sim.virtual_loop import VirtualLoop, run
from tests.simulation.stormy_network import StormyNetwork

T = TypeVar("T")
CLIENT, SERVER = "10.0.0.7", "10.0.0.1"


class Owner:
    """Writes down what it is told, and when."""

    def __init__(self, loop: VirtualLoop, *, echo: bool = False) -> None:
        self.loop = loop
        self.echo = echo
        self.events: list[str] = []
        self.chunks: list[bytes] = []
        self.times: list[float] = []
        self.transport: Any = None
        self.error: Exception | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        self.events.append("data")
        self.chunks.append(data)
        self.times.append(self.loop.now)
        if self.echo:
            self.transport.write(data)

    def eof_received(self) -> bool | None:
        self.events.append("eof")
        return None

    def connection_lost(self, error: Exception | None) -> None:
        self.events.append("lost")
        self.error = error

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    @property
    def bytes(self) -> bytes:
        return b"".join(self.chunks)


class Pair:
    """A server that may echo, a client that is connected to it."""

    def __init__(self, loop: VirtualLoop, *, echo: bool = False) -> None:
        self.loop = loop
        self.network = StormyNetwork(loop)
        self.server_node = Node("server", host=SERVER, process=1)
        self.client_node = Node("client", host=CLIENT, process=2)
        self.accepted: list[Owner] = []
        self.echo = echo

    def accept(self) -> Owner:
        self.accepted.append(Owner(self.loop, echo=self.echo))
        return self.accepted[-1]

    async def serve(self, port: int = 9876) -> None:
        door = self.network.door(self.server_node)
        await self.loop.spawn(self.server_node, door.listen(self.accept, SERVER, port))

    async def connect(self, port: int = 9876) -> Owner:
        owner = Owner(self.loop)
        await self.loop.spawn(self.client_node, self.network.door(self.client_node).connect(owner, SERVER, port))
        return owner

    async def both(self) -> tuple[Owner, Owner]:
        await self.serve()
        client = await self.connect()
        await asyncio.sleep(0.1)
        return client, self.accepted[0]


def play(
    scene: Callable[[Pair], Coroutine[Any, Any, T]],
    *,
    seed: int = 1,
    weather: Weather | None = None,
    echo: bool = False,
) -> T:
    async def main(loop: VirtualLoop) -> T:
        pair = Pair(loop, echo=echo)
        if weather is not None:
            pair.network.weather = weather
        return await scene(pair)

    return run(main, seed=seed)


ROUGH = Weather(stall_rate=0.05, split_rate=0.4, coalesce_rate=0.4)


@pytest.mark.parametrize("seed", range(10))
def test_bytes_keep_their_order_whatever_the_weather(seed: int) -> None:
    sent = [bytes([number % 251]) * (1 + number % 40) for number in range(300)]

    async def scene(pair: Pair) -> tuple[bytes, list[str], int]:
        client, server = await pair.both()
        for chunk in sent:
            client.transport.write(chunk)
            if len(chunk) % 7 == 0:
                await asyncio.sleep(0.001)
        await asyncio.sleep(30)
        client.transport.close()
        await asyncio.sleep(5)
        return server.bytes, server.events, len(server.chunks)

    got, events, _ = play(scene, seed=seed, weather=ROUGH)
    assert b"".join(sent) == got
    assert "made" == events[0]
    assert ["eof", "lost"] == events[-2:]
    assert 1 == events.count("lost")


def test_chunks_are_split_run_together_and_stalled() -> None:
    async def scene(pair: Pair) -> dict[str, int]:
        client, _ = await pair.both()
        for _ in range(400):
            client.transport.write(b"0123456789")
            await asyncio.sleep(0.01)
        return dict(pair.network.seen)

    seen = play(scene, weather=ROUGH)
    assert {"split chunks", "coalesced chunks", "retransmission stall"} == set(seen)
    assert min(seen.values()) >= 5


def test_a_cut_delays_bytes_and_loses_none() -> None:
    async def scene(pair: Pair) -> tuple[bytes, float]:
        client, server = await pair.both()
        pair.network.cut(CLIENT, SERVER, 10)
        client.transport.write(b"late")
        await asyncio.sleep(20)
        return server.bytes, server.times[0]

    got, when = play(scene)
    assert b"late" == got
    assert 10 <= when <= 11


def test_a_one_way_cut_lets_the_other_way_pass() -> None:
    async def scene(pair: Pair) -> tuple[bytes, bytes, float]:
        client, server = await pair.both()
        pair.network.cut(SERVER, CLIENT, 10, both_ways=False)
        client.transport.write(b"request")
        await asyncio.sleep(5)
        heard, answered = server.bytes, client.bytes
        await asyncio.sleep(10)
        return heard, answered, client.times[0]

    heard, answered, when = play(scene, echo=True)
    assert (b"request", b"") == (heard, answered)
    assert when >= 10


def test_healing_opens_the_ways_for_new_bytes() -> None:
    async def scene(pair: Pair) -> bool:
        await pair.serve()
        pair.network.cut(CLIENT, SERVER, 1000)
        pair.network.refuse(SERVER, 1000)
        pair.network.slow_down(SERVER, 1000.0)
        pair.network.heal()
        began = pair.loop.now
        await pair.connect()
        return pair.loop.now - began < 1

    assert play(scene)


def test_nobody_listens_so_connecting_is_refused() -> None:
    async def scene(pair: Pair) -> None:
        await pair.connect(4)

    with pytest.raises(ConnectionRefusedError):
        play(scene)


def test_a_refusing_host_accepts_again_later() -> None:
    async def scene(pair: Pair) -> list[str]:
        await pair.serve()
        pair.network.refuse(SERVER, 5)
        with pytest.raises(ConnectionRefusedError):
            await pair.connect()
        await asyncio.sleep(6)
        return (await pair.connect()).events

    assert ["made"] == play(scene)


def test_connecting_to_a_machine_that_is_off_takes_for_ever() -> None:
    async def scene(pair: Pair) -> None:
        await pair.serve()
        pair.network.power_off(SERVER)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await pair.connect()

    play(scene)


def test_a_crash_is_heard_by_the_peer() -> None:
    async def scene(pair: Pair) -> tuple[list[str], bytes]:
        client, server = await pair.both()
        server.transport.write(b"last words")
        pair.loop.kill(pair.server_node, silently=False)
        await asyncio.sleep(2)
        return client.events, client.bytes

    for seed in range(6):
        events, got = play(scene, seed=seed)
        assert b"last words" == got
        assert "lost" == events[-1]
        assert 1 == events.count("lost")


def test_a_power_cut_is_not_heard_until_the_machine_is_back() -> None:
    async def scene(pair: Pair) -> tuple[list[str], list[str]]:
        client, _ = await pair.both()
        pair.network.power_off(SERVER)
        pair.loop.kill(pair.server_node, silently=True)
        client.transport.write(b"are you there?")
        await asyncio.sleep(60)
        silent = list(client.events)
        assert pair.network.is_half_open(pair.client_node.name, SERVER)
        pair.network.power_on(SERVER)
        client.transport.write(b"and now?")
        await asyncio.sleep(1)
        assert not pair.network.is_half_open(pair.client_node.name, SERVER)
        return silent, client.events

    silent, after = play(scene)
    assert ["made"] == silent
    assert ["made", "lost"] == after


def test_a_killed_process_hears_nothing_more() -> None:
    async def scene(pair: Pair) -> list[str]:
        client, server = await pair.both()
        client.transport.write(b"too late")
        pair.loop.kill(pair.server_node, silently=False)
        await asyncio.sleep(2)
        return server.events

    assert ["made"] == play(scene)


def test_its_port_is_free_again_after_a_crash() -> None:
    async def scene(pair: Pair) -> int:
        await pair.serve()
        with pytest.raises(OSError, match="in use"):
            await pair.serve()
        pair.loop.kill(pair.server_node, silently=False)
        pair.server_node = Node("server", host=SERVER, process=9)
        await pair.serve()
        await pair.connect()
        await asyncio.sleep(0.1)
        return len(pair.accepted)

    assert 1 == play(scene)


def test_a_stopped_process_is_connected_to_and_answers_later() -> None:
    """The kernel accepts for it, as after SIGSTOP."""

    async def scene(pair: Pair) -> tuple[int, float]:
        await pair.serve()
        pair.loop.hold(pair.server_node, 20)
        client = await pair.connect()
        client.transport.write(b"hello")
        await asyncio.sleep(10)
        early = len(pair.accepted)
        await asyncio.sleep(20)
        return early, client.times[0]

    early, when = play(scene, echo=True)
    assert 0 == early
    assert 20 <= when < 21


def test_a_reader_that_pauses_makes_the_writer_pause() -> None:
    async def scene(pair: Pair) -> tuple[list[str], int, int]:
        client, server = await pair.both()
        server.transport.pause_reading()
        for _ in range(64):
            client.transport.write(bytes(16 * 1024))
        await asyncio.sleep(5)
        waiting = client.transport.get_write_buffer_size()
        nothing_read = not server.chunks
        server.transport.resume_reading()
        await asyncio.sleep(5)
        assert nothing_read
        return client.events, waiting, len(server.bytes)

    events, waiting, got = play(scene)
    assert ["made", "pause", "resume"] == events
    assert waiting > 64 * 1024
    assert 64 * 16 * 1024 == got


def test_closing_sends_what_was_written_first() -> None:
    async def scene(pair: Pair) -> tuple[int, list[str], list[str]]:
        client, server = await pair.both()
        for _ in range(64):
            client.transport.write(bytes(16 * 1024))
        client.transport.close()
        client.transport.write(b"ignored")
        await asyncio.sleep(5)
        return len(server.bytes), server.events, client.events

    size, server_events, client_events = play(scene)
    assert 64 * 16 * 1024 == size
    assert ["eof", "lost"] == server_events[-2:]
    assert "lost" == client_events[-1]


def test_aborting_resets_the_peer() -> None:
    async def scene(pair: Pair) -> tuple[list[str], Exception | None]:
        client, server = await pair.both()
        client.transport.abort()
        await asyncio.sleep(1)
        return client.events, server.error

    events, error = play(scene)
    assert ["made", "lost"] == events
    assert isinstance(error, ConnectionResetError)


def test_something_between_the_two_breaks_the_connection() -> None:
    async def scene(pair: Pair) -> tuple[list[str], list[str]]:
        client, server = await pair.both()
        client.transport.break_off()
        await asyncio.sleep(2)
        return client.events, server.events

    assert (["made", "lost"], ["made", "lost"]) == play(scene)


def test_a_tap_may_swallow_an_answer() -> None:
    async def scene(pair: Pair) -> tuple[bytes, bytes]:
        client, server = await pair.both()

        def steal(transport: Any, data: bytes) -> bytes:
            if transport.here != SERVER:
                return data
            transport.break_off()
            return b""

        pair.network.tap = steal
        client.transport.write(b"work")
        await asyncio.sleep(2)
        assert "lost" == client.events[-1]
        return server.bytes, client.bytes

    assert (b"work", b"") == play(scene, echo=True)


def test_an_owner_that_raises_loses_its_connection() -> None:
    async def scene(pair: Pair) -> tuple[list[str], int]:
        client, server = await pair.both()
        server.chunks = None  # type: ignore[assignment]  # so that data_received fails
        client.transport.write(b"x")
        await asyncio.sleep(1)
        return server.events, len(pair.loop.complaints)

    events, complaints = play(scene)
    assert ["made", "data", "lost"] == events
    assert 1 == complaints


def test_loopback_is_the_own_machine() -> None:
    async def scene(pair: Pair) -> list[str]:
        door = pair.network.door(pair.server_node)
        await door.listen(pair.accept, "127.0.0.1", 7)
        own = Owner(pair.loop)
        await door.connect(own, "localhost", 7)
        with pytest.raises(ConnectionRefusedError):
            await pair.connect(7)
        with pytest.raises(OSError, match="Cannot assign"):
            await door.listen(pair.accept, CLIENT, 8)
        return own.events

    assert ["made"] == play(scene)


def test_a_port_nobody_asked_for_is_chosen_and_closed() -> None:
    async def scene(pair: Pair) -> tuple[int, int]:
        door = pair.network.door(pair.server_node)
        first = await door.listen(pair.accept, "0.0.0.0", 0)
        second = await door.listen(pair.accept, "0.0.0.0", 0)
        await first.close()
        with pytest.raises(ConnectionRefusedError):
            await pair.connect(first.port)
        await pair.connect(second.port)
        return first.port, second.port

    first, second = play(scene)
    assert first != second


def test_tls_is_out_of_reach() -> None:
    async def scene(pair: Pair) -> None:
        await pair.network.door(pair.client_node).connect(Owner(pair.loop), SERVER, 1, tls=object())

    with pytest.raises(SimEscape, match="tls"):
        play(scene)


def test_a_slow_host_takes_longer() -> None:
    async def scene(pair: Pair) -> list[float]:
        client, server = await pair.both()
        began = pair.loop.now
        client.transport.write(b"x")
        await asyncio.sleep(5)
        pair.network.slow_down(SERVER, 400.0)
        again = pair.loop.now
        client.transport.write(b"y")
        await asyncio.sleep(5)
        return [server.times[0] - began, server.times[1] - again]

    quick, slow = play(scene, weather=Weather(latency_min_s=0.001, latency_max_s=0.001))
    assert quick < 0.002 < 0.4 <= slow
