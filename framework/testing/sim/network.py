"""SimNetwork: machines, the links between them, who listens where, and the weather.

It owns delays; `transport.py` owns the bytes. Links are directed, (from, to), by host. All chance is drawn from the
network's own stream. Nothing is cut, refused or down here: a subclass may say that it is.
"""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from framework.ports import PipeOwner
from framework.testing.errors import SimEscape
from framework.testing.sim.node import Node
from framework.testing.sim.transport import Sign, SimTransport
from framework.testing.sim.virtual_loop import NOWHERE, VirtualLoop

LOOPBACK = ("127.0.0.1", "localhost", "::1")
ANY = ("0.0.0.0", "::", "")
SYN_SENT_AGAIN_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""As Linux: 127 seconds until a connect gives up by itself."""
STALL_MIN_S, STALL_MAX_S = 0.2, 1.0
"""A lost segment is sent again after a retransmission time-out; the bytes behind it wait too."""
BYTES_PER_SECOND = 100e6
FIRST_FREE_PORT = 10_911


@dataclass(slots=True)
class Weather:
    """What the network is like in general; random runs draw it."""

    latency_min_s: float = 0.0002
    latency_max_s: float = 0.005
    stall_rate: float = 0.0
    split_rate: float = 0.02
    coalesce_rate: float = 0.02


class SimListening:
    """A port that accepts, until closed or its process dies."""

    def __init__(
        self, network: SimNetwork, node: Node, make_owner: Callable[[], PipeOwner], address: tuple[str, int]
    ) -> None:
        self.network = network
        self.node = node
        self.make_owner = make_owner
        self.address = address
        self.is_local = False
        self._number = network.loop.next_number()
        node.endpoints[self._number] = self

    @property
    def port(self) -> int:
        return self.address[1]

    async def close(self) -> None:
        self.node.endpoints.pop(self._number, None)
        self.network.stop_listening(self)

    def owner_died(self, *, silently: bool) -> None:
        self.network.stop_listening(self)


class SimNetwork:
    """One for all machines of a run; `door(node)` is what a process sees of it."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.chance = loop.streams.network
        self.context = NOWHERE
        self.weather = Weather()
        self.tap: Callable[[SimTransport, bytes], bytes] | None = None
        """Sees each write before it leaves; answers False to swallow it. None costs nothing."""
        self.seen: Counter[str] = Counter()
        """How often the weather did what, by fault kind."""
        self.callers: dict[str, str] = {}
        """The process behind each connection that was ever opened, by the address that its peer sees."""
        self._transports: list[SimTransport] = []
        self._listening: dict[tuple[str, int], SimListening] = {}
        self._ports: Counter[str] = Counter()

    def door(self, node: Node) -> NetworkDoor:
        return NetworkDoor(self, node)

    def transports(self) -> list[SimTransport]:
        """Every end of a connection that has not ended, in the order of creation."""
        self._transports = [transport for transport in self._transports if not transport.is_lost]
        return list(self._transports)

    # -- what transports ask

    def delay(self, source: str, target: str, size: int = 0) -> float:
        weather, chance = self.weather, self.chance
        if source == target:
            return chance.between(0.00002, 0.0001)
        seconds = weather.latency_min_s + (weather.latency_max_s - weather.latency_min_s) * chance.random()
        seconds += size / BYTES_PER_SECOND
        seconds *= self.slowness(source, target)
        if weather.stall_rate and self.happens("retransmission stall", weather.stall_rate):
            seconds += chance.between(STALL_MIN_S, STALL_MAX_S)
        return seconds

    def happens(self, kind: str, rate: float) -> bool:
        if rate and self.chance.random() < rate:
            self.seen[kind] += 1
            return True
        return False

    def opens_at(self, source: str, target: str) -> float:
        """Until when nothing passes this way."""
        return 0.0

    def slowness(self, source: str, target: str) -> float:
        """How many times as long everything takes on this way."""
        return 1.0

    def is_up(self, host: str) -> bool:
        return True

    def refuses(self, host: str, port: int) -> bool:
        """Whether there are no new connections, whoever listens there."""
        return False

    # -- connections

    def find(self, host: str, port: int, caller: str) -> SimListening | None:
        listening = self._listening.get((host, port))
        if listening is None or (listening.is_local and caller != host):
            return None
        return None if self.refuses(host, port) else listening

    def join(self, node: Node, owner: PipeOwner, listening: SimListening) -> SimTransport:
        """The two ends of a new connection; the accepting side hears of it a little later."""
        self._ports[node.host] += 1
        here = (node.host, 40_000 + self._ports[node.host])
        self.callers[f"{here[0]}:{here[1]}"] = node.name
        there = listening.address
        near = SimTransport(self, node, lambda: owner, there=there[0], names={"peername": there, "sockname": here})
        far = SimTransport(
            self, listening.node, listening.make_owner, there=here[0], names={"peername": here, "sockname": there}
        )
        near.peer, far.peer = far, near
        self._transports += (near, far)
        near.send(Sign.OPEN)
        return near

    def start_listening(self, listening: SimListening) -> None:
        if listening.address in self._listening:
            host, port = listening.address
            raise OSError(errno.EADDRINUSE, f"Address already in use: {host}:{port}")
        self._listening[listening.address] = listening

    def stop_listening(self, listening: SimListening) -> None:
        if self.is_listening(listening):
            del self._listening[listening.address]

    def is_listening(self, listening: SimListening) -> bool:
        return self._listening.get(listening.address) is listening

    def free_port(self, host: str) -> int:
        port = FIRST_FREE_PORT
        while (host, port) in self._listening:
            port += 1
        return port


class NetworkDoor:
    """ports.Network for one process."""

    def __init__(self, network: SimNetwork, node: Node) -> None:
        self._network = network
        self._node = node

    async def connect(
        self, owner: PipeOwner, host: str, port: int, *, tls: Any = None, server_name: str | None = None
    ) -> None:
        if tls is not None:
            raise SimEscape(f"TLS to {host}:{port}: its bytes are random; leave tls out of a simulation's settings")
        network, here = self._network, self._node.host
        there = here if host in LOOPBACK else host
        await asyncio.sleep(network.delay(here, there))
        for pause in SYN_SENT_AGAIN_S:
            now = network.loop.now
            if network.is_up(there) and max(network.opens_at(here, there), network.opens_at(there, here)) <= now:
                break
            await asyncio.sleep(pause)
        else:
            raise TimeoutError(errno.ETIMEDOUT, f"Connect call failed: {host}:{port}")
        listening = network.find(there, port, here)
        await asyncio.sleep(network.delay(there, here))
        if listening is None or not network.is_listening(listening):
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed: {host}:{port}")
        network.join(self._node, owner, listening).establish()

    def sockets_max(self, wanted: int) -> int:
        return wanted

    async def listen(
        self, make_owner: Callable[[], PipeOwner], host: str, port: int, *, tls: Any = None
    ) -> SimListening:
        if tls is not None:
            raise SimEscape(f"TLS on {host}:{port}: its bytes are random; leave tls out of a simulation's settings")
        here = self._node.host
        if host not in (*LOOPBACK, *ANY, here):
            raise OSError(errno.EADDRNOTAVAIL, f"Cannot assign requested address: {host} (this machine is {here})")
        address = (here, port or self._network.free_port(here))
        listening = SimListening(self._network, self._node, make_owner, address)
        listening.is_local = host in LOOPBACK
        self._network.start_listening(listening)
        return listening
