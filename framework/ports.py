"""The one doorway to chance: everything that two runs of the same code could see differently comes through `World`.

The real one is `net/real_world.py`; the simulation hands in another. Sleeping needs no port: it is `asyncio.sleep`, and
the event loop itself is what gets swapped. Nothing here knows asyncio; asyncio's own transports and protocols fit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from framework.model.contracts import SmallFiles

T = TypeVar("T")


class Clock(Protocol):
    """Two clocks that must not be mixed up."""

    def now_ms(self) -> int:
        """The wall clock, Unix time. Only for what is shown, stored or sent; it may step backwards."""
        ...

    def monotonic(self) -> float:
        """Seconds that only go forward, on the event loop's scale: leases, limits, deadlines, and the hot path."""
        ...

    def monotonic_ms(self) -> int:
        """The same in whole milliseconds, as the pure core wants it."""
        ...


class Pipe(Protocol):
    """The writing end of a connection (asyncio.Transport fits)."""

    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def is_closing(self) -> bool: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def get_extra_info(self, name: str, default: Any = None) -> Any: ...
    def get_write_buffer_size(self) -> int: ...


class PipeOwner(Protocol):
    """The reading end: who is told what happens on a connection (asyncio.Protocol fits)."""

    def connection_made(self, transport: Any) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def eof_received(self) -> bool | None: ...
    def connection_lost(self, error: Exception | None) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class TlsOwner(PipeOwner, Protocol):
    """The same of an accepted connection that is to speak TLS."""

    def arrived(self, transport: Any) -> None:
        """There is one, and nothing is spent on its handshake yet: it may be closed. `connection_made` follows."""


class Listening(Protocol):
    """A port that accepts connections until closed."""

    @property
    def port(self) -> int: ...
    async def close(self) -> None: ...


class Network(Protocol):
    """Connections out and in. `tls` is an ssl.SSLContext or None; it is handed through, never looked into."""

    async def connect(
        self, owner: PipeOwner, host: str, port: int, *, tls: Any = None, server_name: str | None = None
    ) -> None:
        """Open a connection and give it to `owner`; raises OSError as the system does."""
        ...

    async def listen(self, make_owner: Callable[[], PipeOwner], host: str, port: int, *, tls: Any = None) -> Listening:
        """Accept connections on host and port (0: any free); each gets an owner of its own, with `tls` a TlsOwner."""
        ...

    def sockets_max(self, wanted: int) -> int:
        """How many more sockets may be open at once: as many as are wanted, or as the system can be made to allow."""
        ...


class Workers(Protocol):
    """Threads for work that blocks: synchronous handlers, commits to disk."""

    def submit(self, job: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        """Run `job` on a thread, then `done(result, error)` on the event loop's own thread. Never blocks, never queues:
        a thread is started where none is free, so the caller bounds how many jobs it has under way.
        """
        ...

    def run(self, job: Callable[[], T]) -> Awaitable[T]:
        """The same for a caller that wants to await the result."""
        ...

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run `callback` on the event loop's own thread, soon; the one method that a job may call from its thread.

        What one job asks for runs in the order of asking, and all of it before the job's own `done`.
        """
        ...


class Chance(Protocol):
    """Randomness: jitter, first choices, identifiers."""

    def random(self) -> float:
        """0.0 <= x < 1.0."""
        ...

    def below(self, limit: int) -> int:
        """0 <= n < limit."""
        ...

    def token(self, count: int) -> bytes:
        """`count` unpredictable bytes (unpredictable in production; repeatable in a simulation)."""
        ...


class Identity(Protocol):
    """Who this process is, as far as other members of a group can tell."""

    @property
    def host(self) -> str:
        """The address of this machine that others would see (IPv4 or IPv6 text)."""
        ...

    @property
    def process(self) -> int: ...


class DiskUsage(NamedTuple):
    """Bytes of a disk that others may not write to any more, and bytes in all."""

    used: int
    total: int


class Files(SmallFiles, Protocol):
    """Small files, and the disk that they lie on."""

    def usage(self, path: str) -> DiskUsage:
        """How full the disk is that holds a path; OSError where there is no such path."""
        ...


class Watchman(Protocol):
    """Threads that are there for nothing else, and look or answer while the event loop cannot."""

    def attend(self, job: Callable[[], None], name: str) -> None:
        """Run `job` once, on a thread of its own that keeps no process alive."""
        ...

    def watch(self, look: Callable[[], None], seconds: float) -> Callable[[], None]:
        """Call `look` on that thread, each so many seconds; answers how to end it."""
        ...


@dataclass(frozen=True, slots=True)
class World:
    """Everything outside, in one hand."""

    clock: Clock
    network: Network
    workers: Workers
    chance: Chance
    identity: Identity
    files: Files
    watchman: Watchman | None = None
    """None in a simulation, whose steps take no time."""
