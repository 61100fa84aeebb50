"""Two channels back to back without a socket, and a scripted peer: what the tests of net and client stand on.

Bytes arrive in the next turn of the loop, in order. A link can be cut, made deaf (half open) or slow to read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from framework.net.channel import Channel
from framework.net.real_world import real_world
from framework.ports import Listening, PipeOwner, World
from framework.testing.sim.virtual_loop import VirtualLoop, run
from framework.wire.command import RemotingCommand
from framework.wire.connection import Connection, Limits

T = TypeVar("T")
HIGH_WATER = 64 * 1024


def virtually(story: Callable[[], Coroutine[Any, Any, T]], *, seed: int = 0) -> T:
    """Run the story in virtual time; what asyncio would only have logged fails it."""

    async def main(loop: VirtualLoop) -> T:
        result = await story()
        assert [] == loop.complaints
        return result

    return run(main, seed=seed)


class MemoryPipe:
    """One end of a connection; `other` is the far end."""

    def __init__(self, owner: PipeOwner, name: str) -> None:
        self.owner = owner
        self.other: MemoryPipe
        self.name = name
        self.is_deaf = False
        """Whatever is written to this end vanishes, and nobody is told: a half-open connection."""
        self.unread: deque[bytes] = deque()
        self.unread_bytes = 0
        self.is_paused = False
        self.written = 0
        self._closing = False
        self._told_to_pause = False

    def write(self, data: bytes) -> None:
        self.written += len(data)
        if self._closing or self.other.is_deaf:
            return
        self.other.unread.append(bytes(data))
        self.other.unread_bytes += len(data)
        asyncio.get_running_loop().call_soon(self.other.deliver)
        if self.get_write_buffer_size() > HIGH_WATER and not self._told_to_pause:
            self._told_to_pause = True
            self.owner.pause_writing()

    def deliver(self) -> None:
        while self.unread and not self.is_paused and not self._closing:
            data = self.unread.popleft()
            self.unread_bytes -= len(data)
            self.owner.data_received(data)
        if self.other._told_to_pause and not self.unread:
            self.other._told_to_pause = False
            self.other.owner.resume_writing()

    def take(self, size: int) -> None:
        """Read so much of the first that is unread, though reading is paused."""
        self.unread[0] = self.unread[0][size:]
        self.unread_bytes -= size

    def close(self) -> None:
        self._end(None)

    def abort(self) -> None:
        self._end(None)

    def cut(self, error: Exception | None = None) -> None:
        """The network ends the connection, for both."""
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        loop = asyncio.get_running_loop()
        for pipe in (self, self.other):
            if not pipe._closing:
                pipe._closing = True
                loop.call_soon(pipe.owner.connection_lost, error)

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False
        asyncio.get_running_loop().call_soon(self.deliver)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self.name, 1000) if name == "peername" else default

    def get_write_buffer_size(self) -> int:
        return self.other.unread_bytes


def join(one: PipeOwner, two: PipeOwner, *, host: str = "10.0.0.1") -> tuple[MemoryPipe, MemoryPipe]:
    """Connect two owners."""
    here, there = MemoryPipe(one, host), MemoryPipe(two, "10.9.9.9")
    here.other, there.other = there, here
    two.connection_made(there)
    one.connection_made(here)
    return here, there


Answer = Callable[["Peer", RemotingCommand], RemotingCommand | None]


class Peer:
    """A scripted broker over the same wire: `answer(peer, request)` decides, None leaves it unanswered."""

    def __init__(self, answer: Answer) -> None:
        self.wire: Connection[asyncio.Future[RemotingCommand]] = Connection(Limits())
        self.requests: list[RemotingCommand] = []
        self.answers: list[RemotingCommand] = []
        self.pipe: Any = None
        self.is_lost = False
        self._answer = answer

    def connection_made(self, transport: Any) -> None:
        self.pipe = transport

    def data_received(self, data: bytes) -> None:
        for future, command in self.wire.receive_data(data):
            if future is not None:
                self.answers.append(command)
                future.set_result(command)
                continue
            self.requests.append(command)
            answer = self._answer(self, command)
            if answer is not None:
                self.reply(command, answer)

    def reply(self, request: RemotingCommand, answer: RemotingCommand) -> None:
        data = self.wire.answer(request, answer)
        if data:
            self.pipe.write(data)

    def ask(self, command: RemotingCommand) -> asyncio.Future[RemotingCommand]:
        future: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        self.pipe.write(self.wire.request(command, future))
        return future

    def eof_received(self) -> bool | None:
        return None

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True

    def pause_writing(self) -> None:
        return

    def resume_writing(self) -> None:
        return


def echo(peer: Peer, request: RemotingCommand) -> RemotingCommand:
    return RemotingCommand(0, dict(request.fields), request.body)


def linked(answer: Answer = echo, **options: Any) -> tuple[Channel, Peer]:
    """A channel whose other end is a scripted peer."""
    channel, peer = Channel("broker-a:10911", **options), Peer(answer)
    join(channel, peer)
    return channel, peer


class MemoryNetwork:
    """Listens and connects in memory. `peers[address]` answers by script; an address that is absent refuses."""

    def __init__(self) -> None:
        self.scripts: dict[str, Answer] = {}
        self.peers: list[tuple[str, Peer]] = []
        self.dialled: list[str] = []
        self.delay = 0.001
        self.server_names: list[str | None] = []

    async def connect(
        self, owner: PipeOwner, host: str, port: int, *, tls: Any = None, server_name: str | None = None
    ) -> None:
        address = f"{host}:{port}"
        self.dialled.append(address)
        self.server_names.append(server_name)
        await asyncio.sleep(self.delay)
        script = self.scripts.get(address)
        if script is None:
            raise ConnectionRefusedError(111, "Connection refused")
        peer = Peer(script)
        self.peers.append((address, peer))
        join(owner, peer, host=host)

    async def listen(self, make_owner: Callable[[], PipeOwner], host: str, port: int, *, tls: Any = None) -> Listening:
        return MemoryListening(port or 40_000)

    def sockets_max(self, wanted: int) -> int:
        return wanted

    def requests(self, address: str) -> list[RemotingCommand]:
        """Everything that was asked at an address, over all its connections."""
        return [request for place, peer in self.peers if place == address for request in peer.requests]


class MemoryListening:
    def __init__(self, port: int) -> None:
        self.port = port

    async def close(self) -> None:
        return


def world_with(network: MemoryNetwork) -> World:
    """The real ports but for the network."""
    return replace(real_world(), network=network)
