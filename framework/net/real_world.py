"""The ports over asyncio and the system: the one file that may look at a clock, draw a number or start a thread.

It decides nothing. What it offers is written in `ports.py`; the simulation offers the same.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import random
import resource
import socket
import threading
from asyncio.sslproto import SSLProtocol
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context, copy_context
from functools import cached_property, partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

from framework import private_files
from framework.net import forks
from framework.net.real_clock import RealClock
from framework.net.wakeup import bring_home
from framework.ports import DiskUsage, Listening, PipeOwner, TlsOwner, World

T = TypeVar("T")
Job = Callable[[], Any]
Done = Callable[[Any, BaseException | None], None]

THREAD_IDLE_SECONDS = 10.0  # a thread that nobody needed for so long ends
LISTEN_BACKLOG = 256
READ_BYTES = 128 * 1024
"""Of one connection in one turn of the loop. With many queues at work a turn of asyncio's 256 KiB brings more messages
than stay in a processor's cache until they are handled, and that made each of them a quarter dearer."""
TLS_READ_BYTES = 64 * 1024  # each connection has a buffer of so many; asyncio's are 256 KiB
HANDSHAKE_SECONDS = 10.0  # asyncio's own are 60
FILES_BESIDE = 16  # for what is opened beside sockets later on: logs, databases' own files, a thread's pipe
THREADS = "the thread of this handler"


def real_world() -> World:
    """A World of this machine. Cheap: nothing is opened or started before it is used."""
    return World(
        clock=RealClock(),
        network=RealNetwork(),
        workers=RealWorkers(),
        chance=RealChance(),
        identity=RealIdentity(),
        files=RealFiles(),
        watchman=RealWatchman(),
    )


def is_of_no_address(error: OSError) -> bool:
    """Whether a port could not be opened because of its address: a name that leads nowhere, or another machine's."""
    return isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL


class RealNetwork:
    async def connect(
        self, owner: PipeOwner, host: str, port: int, *, tls: Any = None, server_name: str | None = None
    ) -> None:
        name = (server_name or host) if tls is not None else None

        def make_owner() -> Any:  # it has asyncio.Protocol's shape without being of its class
            return owner

        transport, _ = await asyncio.get_running_loop().create_connection(
            make_owner, host, port, ssl=tls, server_hostname=name
        )
        if hasattr(transport, "max_size"):  # asyncio's own for plain sockets; there is no public way
            transport.max_size = READ_BYTES
        forks.cut_off(transport)

    async def listen(self, make_owner: Callable[[], PipeOwner], host: str, port: int, *, tls: Any = None) -> Listening:
        def make_doorstep() -> Any:
            return _Doorstep(cast("TlsOwner", make_owner()), tls)

        if tls is not None:
            SSLProtocol.max_size = TLS_READ_BYTES  # of this whole process; it has no other place
        server = await asyncio.get_running_loop().create_server(
            make_owner if tls is None else make_doorstep,  # type: ignore[arg-type]  # as above
            host,
            port,
            backlog=LISTEN_BACKLOG,
        )
        if not server.sockets:
            # asyncio takes a socket that the system refuses for a kind that it lacks, and says nothing.
            server.close()
            socket.socket().close()  # says it: too many open files
            raise OSError(errno.EADDRNOTAVAIL, f"no socket for {host}")
        return RealListening(server)

    def sockets_max(self, wanted: int) -> int:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            return wanted
        try:
            used = sum(1 for _ in Path("/dev/fd").iterdir())
        except OSError:
            return wanted  # no file is left to look with; whoever opens the next one says so
        # As many as are waiting come in at once, before the first of those that are too many is closed.
        beside = used + FILES_BESIDE + min(LISTEN_BACKLOG, soft // 4)
        if soft < wanted + beside:
            most = wanted + beside if hard == resource.RLIM_INFINITY else min(wanted + beside, hard)
            with suppress(OSError, ValueError):  # a system with a limit of its own stays as it is
                resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
                soft = most
        return max(min(wanted, soft - beside), 1)


class _Doorstep(asyncio.Protocol):
    """An accepted connection until its TLS handshake is over.

    asyncio would begin the handshake, which takes 100 KiB, before anybody hears of the connection; so the
    owner is told first, and may close it. What comes with the handshake's last bytes waits for the owner.
    """

    def __init__(self, owner: TlsOwner, tls: Any) -> None:
        self._owner, self._tls = owner, tls
        self._early: list[Callable[[], object]] = []
        self._handshake: asyncio.Task[None] | None = None

    def connection_made(self, transport: Any) -> None:
        transport.pause_reading()
        self._owner.arrived(transport)
        if not transport.is_closing():
            self._handshake = asyncio.get_running_loop().create_task(self._shake_hands(transport))

    async def _shake_hands(self, transport: Any) -> None:
        if transport.is_closing():  # its place has gone to another that came at the same time: a handshake would wait
            for tell in self._early:
                tell()
            return
        loop = asyncio.get_running_loop()
        try:
            secured: Any = await loop.start_tls(
                transport, self, self._tls, server_side=True, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except OSError as error:  # ssl.SSLError is one
            transport.abort()
            self._owner.connection_lost(error)
            return
        if secured is None:  # it ended meanwhile
            self._owner.connection_lost(None)
            return
        self._owner.connection_made(secured)
        for tell in self._early:
            tell()
        secured.set_protocol(self._owner)

    def data_received(self, data: bytes) -> None:
        self._early.append(partial(self._owner.data_received, data))

    def eof_received(self) -> None:
        self._early.append(self._owner.eof_received)

    def connection_lost(self, error: Exception | None) -> None:
        if self._handshake is None or self._handshake.done():
            self._owner.connection_lost(error)
        else:
            self._early.append(partial(self._owner.connection_lost, error))


class RealListening:
    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        self.port: int = server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        # Not wait_closed: from 3.12 on it waits for every accepted connection, which are their owner's to close.
        self._server.close()
        await asyncio.sleep(0)


class _Thread:
    """One thread and its next job. Daemonic, for a handler that never returns must not keep the process alive."""

    def __init__(self, free: deque[_Thread], lock: threading.Lock) -> None:
        self._jobs: SimpleQueue[tuple[asyncio.AbstractEventLoop, Context, Job, Done]] = SimpleQueue()
        self._process = os.getpid()
        self._free = free
        self._lock = lock

    def start(self, number: int) -> None:
        threading.Thread(target=self._serve, name=f"worker-{number}", daemon=True).start()

    def give(self, loop: asyncio.AbstractEventLoop, job: Job, done: Done) -> None:
        self._jobs.put((loop, copy_context(), job, done))

    def _serve(self) -> None:
        while True:
            try:
                loop, context, job, done = self._jobs.get(timeout=THREAD_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._jobs.empty() and self in self._free:
                        self._free.remove(self)
                        return
                continue  # taken this very moment: its job is on the way
            result: Any = None
            error: BaseException | None = None
            try:
                result = context.run(job)
            except BaseException as caught:  # noqa: BLE001 - border: the job's; its owner is told
                error = caught
            if os.getpid() != self._process:
                forks.leave(THREADS, self._process)
            with self._lock:
                self._free.append(self)
            _tell(loop, done, result, error)
            del loop, context, job, done, result, error  # nothing of a job is kept alive while waiting for the next


def _tell(loop: asyncio.AbstractEventLoop, *callback: Any) -> None:
    try:
        loop.call_soon_threadsafe(*callback)
    except RuntimeError:
        if not loop.is_closed():
            raise
        # The loop ended while the job ran, so nobody is left to be told.


class RealWorkers:
    """Threads without a maximum: their number is whatever the callers have under way at once."""

    def __init__(self) -> None:
        self._free: deque[_Thread] = deque()
        self._lock = threading.Lock()
        self._started = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._parent: int | None = None
        forks.tell(self)

    def forked(self, parent: int) -> None:
        """In a child: the threads are gone, and whoever held the lock with them."""
        self._parent, self._loop = parent, None
        self._free, self._lock = deque(), threading.Lock()

    def submit(self, job: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        loop = self._loop = asyncio.get_running_loop()
        with self._lock:
            thread = self._free.pop() if self._free else None  # the one that worked last: its stack is warm
        if thread is None:
            self._started += 1
            thread = _Thread(self._free, self._lock)
            thread.start(self._started)
        thread.give(loop, job, done)

    def run(self, job: Callable[[], T]) -> Awaitable[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.submit(job, partial(bring_home, future))
        return future

    def call_soon(self, callback: Callable[[], None]) -> None:
        if self._loop is None and self._parent is not None:
            forks.leave(THREADS, self._parent)
        assert self._loop is not None, "call_soon is for jobs, and no job was ever submitted"
        _tell(self._loop, callback)


class RealWatchman:
    def attend(self, job: Callable[[], None], name: str) -> None:
        threading.Thread(target=job, name=name, daemon=True).start()

    def watch(self, look: Callable[[], None], seconds: float) -> Callable[[], None]:
        is_over = threading.Event()

        def serve() -> None:
            while not is_over.wait(seconds):
                look()

        threading.Thread(target=serve, name="watchman", daemon=True).start()
        return is_over.set


class RealChance:
    random = staticmethod(random.random)  # re-seeded by Python itself after a fork

    def below(self, limit: int) -> int:
        return random.randrange(limit)

    def token(self, count: int) -> bytes:
        return os.urandom(count)


class RealIdentity:
    @cached_property
    def host(self) -> str:
        """The address of the interface that the default route leaves by; no packet is sent to find it."""
        for family, elsewhere in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
            try:
                with socket.socket(family, socket.SOCK_DGRAM) as probe:
                    probe.connect((elsewhere, 9))
                    return str(probe.getsockname()[0])
            except OSError:
                continue
        return "127.0.0.1"  # no route to anywhere: others on this machine are all there are

    @property
    def process(self) -> int:
        return os.getpid()  # not kept: a fork changes it


class RealFiles:
    """Of this user alone, and regular (`private_files.py`)."""

    def read(self, path: str) -> bytes | None:
        try:
            file = private_files.open_file(Path(path), os.O_RDONLY)
        except FileNotFoundError:
            return None
        with os.fdopen(file, "rb") as opened:
            return opened.read()

    def replace(self, path: str, content: bytes) -> None:
        target = Path(path)
        beside = target.with_name(f".{target.name}.{os.getpid()}.new")
        private_files.make_file(beside)
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # or a crash could bring the old name back
        finally:
            os.close(folder)

    def usage(self, path: str) -> DiskUsage:
        disk = os.statvfs(path)
        # What is set aside for the superuser counts as used, as RocketMQ counts it.
        return DiskUsage((disk.f_blocks - disk.f_bavail) * disk.f_frsize, disk.f_blocks * disk.f_frsize)

    def lock(self, path: str) -> Callable[[], None] | None:
        target = Path(path)
        private_files.make_folder(target.parent)
        file = private_files.open_file(target, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return None
        forks.keep_file(file)

        def let_go() -> None:
            forks.forget_file(file)
            os.close(file)

        return let_go
