"""StormyNetwork: a simulated network in which links are cut and slow, hosts refuse and are down, connections break."""

from __future__ import annotations

from framework.testing.sim.network import SimNetwork
from framework.testing.sim.transport import Sign, SimTransport
from framework.testing.sim.virtual_loop import VirtualLoop


class StormyNetwork(SimNetwork):
    """Cuts may go one way only."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__(loop)
        self._open_again: dict[tuple[str, str], float] = {}
        self._slowness: dict[str, float] = {}
        self._refuse_until: dict[tuple[str, int | None], float] = {}
        """Host and port, or all of its ports."""
        self._down: set[str] = set()

    # -- faults

    def cut(self, source: str, target: str, seconds: float, *, both_ways: bool = True) -> None:
        """Nothing passes from source to target for so long; bytes wait and are sent again."""
        until = self.loop.now + seconds
        self._open_again[source, target] = max(until, self._open_again.get((source, target), 0.0))
        if both_ways:
            self.cut(target, source, seconds, both_ways=False)

    def mend(self, source: str, target: str) -> None:
        self._open_again.pop((source, target), None)

    def slow_down(self, host: str, factor: float) -> None:
        """Everything from and to this host takes so many times as long."""
        self._slowness[host] = factor

    def refuse(self, host: str, seconds: float, port: int | None = None) -> None:
        """The host refuses new connections for so long, whoever listens there (or at this port)."""
        self._refuse_until[host, port] = self.loop.now + seconds

    def break_connections(self, host: str, share: float, port: int | None = None) -> int:
        """Reset this share of the connections to and from a host (or this port of it); how many that were."""
        hit = [
            transport
            for transport in self.transports()
            if transport.here == host
            and port in {None, transport.get_extra_info("sockname")[1]}
            and self.chance.happens(share)
        ]
        for transport in hit:
            transport.break_off()
        return len(hit)

    def power_off(self, host: str) -> None:
        self._down.add(host)

    def power_on(self, host: str) -> None:
        self._down.discard(host)

    def heal(self) -> None:
        """All ways open and quick, nobody refuses; calm weather. Machines that are down stay down."""
        self._open_again.clear()
        self._slowness.clear()
        self._refuse_until.clear()
        self.weather.stall_rate = 0.0

    # -- what is asked

    def opens_at(self, source: str, target: str) -> float:
        return self._open_again.get((source, target), 0.0) if self._open_again else 0.0

    def slowness(self, source: str, target: str) -> float:
        return max(self._slowness.get(source, 1.0), self._slowness.get(target, 1.0)) if self._slowness else 1.0

    def is_up(self, host: str) -> bool:
        return host not in self._down

    def refuses(self, host: str, port: int) -> bool:
        return max(self._refuse_until.get((host, each), 0.0) for each in (None, port)) > self.loop.now

    def is_half_open(self, caller: str, host: str) -> bool:
        """Whether all connections that a process believes to have to this host lead to one that is gone."""
        ends = [end for end in self.transports() if end.node.name == caller and end.there == host]
        return bool(ends) and all(map(self._leads_nowhere, ends))

    def _leads_nowhere(self, end: SimTransport) -> bool:
        """The process at the other end is gone, and nothing that says so has come here."""
        now = self.loop.now
        is_cut = self.opens_at(end.there, end.here) > now
        is_told = not is_cut and any(isinstance(item, Sign) and at <= now for at, item in end._inbox)
        return not (end.is_lost or end.peer.node.is_alive or is_told)
