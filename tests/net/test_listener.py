"""Listener: channels in, limits, an orderly end; once over a real loopback socket, else in memory."""

from __future__ import annotations

import asyncio
from typing import Any

from structlog.testing import capture_logs

from framework.net.channel import Channel
from framework.net.listener import REFUSED_MAX, REFUSED_SECONDS, Listener
from framework.net.pool import Pool
from framework.net.real_world import real_world
from framework.net.tls import SILENT_CLOSE_HINT
from framework.wire.command import RemotingCommand
from tests.net.memory import MemoryNetwork, join, virtually, world_with
from tests.patience import until


def reply(channel: Channel, command: RemotingCommand) -> None:
    channel.answer(command, RemotingCommand(0, dict(command.fields), command.body))


def test_requests_travel_over_a_real_socket() -> None:
    async def story() -> tuple[RemotingCommand, int, list[str]]:
        world = real_world()
        events: list[str] = []
        listener = Listener(
            world,
            "127.0.0.1",
            0,
            on_request=reply,
            on_open=lambda channel: events.append("open"),
            on_closed=lambda channel: events.append("closed"),
        )
        port = await listener.start()
        pool = Pool(world)
        answer = await pool.request(
            f"127.0.0.1:{port}", RemotingCommand(30, {"a": "b"}, bytes(300_000)), timeout_ms=60_000
        )
        count = len(listener.channels)
        await pool.close()
        await listener.close()
        return answer, count, events

    answer, count, events = asyncio.run(story())

    assert {"a": "b"} == answer.fields
    assert 300_000 == len(answer.body)
    assert 1 == count
    assert ["open", "closed"] == events


def test_closing_ends_every_channel_and_tells_who_waits() -> None:
    async def story() -> tuple[str | None, int]:
        world = real_world()
        listener = Listener(world, "127.0.0.1", 0, on_request=lambda channel, command: None)
        port = await listener.start()
        pool = Pool(world)
        channel = await pool.channel(f"127.0.0.1:{port}")
        await until(lambda: listener.channels, "the connection's other end")
        await listener.close()
        await channel.closed
        await pool.close()
        return channel.close_reason, len(listener.channels)

    assert ("closed by the peer" + SILENT_CLOSE_HINT, 0) == asyncio.run(story())


class _Made(MemoryNetwork):
    make: Any

    async def listen(self, make_owner: Any, host: str, port: int, *, tls: Any = None) -> Any:
        self.make = make_owner
        return await super().listen(make_owner, host, port, tls=tls)


def test_connections_above_the_limit_are_told_so_and_later_ones_welcome_again() -> None:
    async def story() -> tuple[list[bool], int, RemotingCommand]:
        network = _Made()
        listener = Listener(world_with(network), "127.0.0.1", 1, on_request=reply, channels_max=2)
        await listener.start()
        clients = []
        for _ in range(3):
            client = Channel("box")
            _, there = join(client, network.make())
            there.owner.prove()  # type: ignore[attr-defined]
            clients.append(client)
            await asyncio.sleep(0.01)
        clients[2].send(RemotingCommand(15))
        refused = await clients[2].request(RemotingCommand(34), timeout_ms=3000)
        while clients[2].is_open:
            clients[2].request_now(RemotingCommand(34), timeout_ms=3000).add_done_callback(lambda it: it.exception())
            assert asyncio.get_running_loop().time() < 1, "asking keeps it open"
            await asyncio.sleep(0.05)
        states = [client.is_open for client in clients]
        clients[0].close("done")
        clients[1].close("done")
        await asyncio.sleep(0.01)
        another = Channel("box")
        join(another, network.make())
        await asyncio.sleep(0.01)
        states.append(another.is_open)
        count = len(listener.channels)
        await listener.close()
        return states, count, refused

    states, count, refused = virtually(story)

    assert ([True, True, False, True], 1) == (states, count)
    assert (2, "[OVERLOAD] 2 connections are open, the limit; try again later") == (refused.code, refused.remark)


def test_refused_connections_that_ask_nothing_are_closed_and_never_many() -> None:
    async def story() -> tuple[list[int], list[str], int]:
        network, served = _Made(), []
        listener = Listener(
            world_with(network), "127.0.0.1", 1, channels_max=1, on_request=lambda _, it: served.append(it)
        )
        await listener.start()
        clients = [Channel("box") for _ in range(1 + REFUSED_MAX + 10)]
        opened = []
        with capture_logs() as lines:
            for client in clients:
                _, there = join(client, network.make())
                if client is clients[0]:
                    there.owner.prove()  # type: ignore[attr-defined]
            for seconds in (0.01, REFUSED_SECONDS):
                await asyncio.sleep(seconds)
                opened.append(sum(client.is_open for client in clients))
        await listener.close()
        return opened, [str(line["event"]) for line in lines], len(served)

    assert ([1 + REFUSED_MAX, 1], ["connections refused"], 0) == virtually(story)


def test_one_bad_peer_hurts_no_other() -> None:
    async def story() -> tuple[bool, bool]:
        network = _Made()
        listener = Listener(world_with(network), "127.0.0.1", 1, on_request=reply)
        await listener.start()
        good, bad = Channel("box"), Channel("box")
        join(good, network.make())
        pipe, _ = join(bad, network.make())
        pipe.write(b"GET / HTTP/1.1\r\n\r\n")
        await asyncio.sleep(0.01)
        answer = await good.request(RemotingCommand(30, {"a": "b"}), timeout_ms=3000)
        await listener.close()
        return bad.is_open, answer.fields == {"a": "b"}

    assert (False, True) == virtually(story)


def test_a_client_that_does_not_read_cannot_hold_the_end_up() -> None:
    """Closing waits for unsent bytes; after a second the connection is aborted."""

    async def story() -> tuple[float, int]:
        network = _Made()
        listener = Listener(world_with(network), "127.0.0.1", 1, on_request=reply)
        await listener.start()
        client = Channel("box")
        _, there = join(client, network.make())
        there.close = lambda: None  # type: ignore[method-assign]
        await asyncio.sleep(0.01)
        picture = repr(listener)
        await listener.close()
        assert "<Listener 127.0.0.1:1 channels=1>" == picture
        return asyncio.get_running_loop().time(), len(listener.channels)

    elapsed, count = virtually(story)

    assert 1 <= elapsed < 1.2
    assert 0 == count
