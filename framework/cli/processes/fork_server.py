"""A process that has imported everything and forks workers: they start in a third of the time, and share its memory.

`run --workers N` has one, made before there is a loop, a thread or a connection. It imports nothing of an application,
nor any plugin: those may not be forked once they hold something, and a worker reads them anew. Linux only; elsewhere,
and when it has gone, each worker is a new interpreter.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import select
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from framework.cli import entry
from framework.cli.exit_codes import ExitCode
from framework.runtime import signals
from framework.runtime.logs import streams

PRELOADED = (
    "asyncio",
    "framework.cli.processes.last_limit",
    "framework.runtime.app",
    "framework.runtime.logs.places",
    "framework.runtime.logs.setup",
    "framework.runtime.reload",
    "framework.runtime.report.stacks",
    "framework.settings.sources",
)
"""What every worker imports in any case, beside the plugins that are built in."""
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Who sends them to all processes means the workers; the server ends when its parent does."""
MESSAGE_BYTES = 1 << 16
DESCRIPTORS = 3
START_SECONDS = 30.0
"""For a fork, on a busy machine."""


class ForkedWorker:
    """One worker, as its parent sees it: what asyncio's `Process` has of it, as far as it is used."""

    def __init__(self, number: int, stdin: int, ended: asyncio.Future[int | None]) -> None:
        self.pid = number
        self._stdin, self._ended = stdin, ended

    @property
    def returncode(self) -> int | None:
        """Where how it ended can't be learned any more, its process is looked for: one that is gone has failed."""
        if not self._ended.done():
            return None
        code = self._ended.result()
        return (None if self.is_alive else int(ExitCode.FAILED)) if code is None else code

    @property
    def is_alive(self) -> bool:
        """Whether the process runs; one that has ended and that nobody has waited for does not."""
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        return state not in "ZX"

    def tell(self, line: bytes) -> None:
        with suppress(BrokenPipeError):  # it has ended, which is heard otherwise
            os.write(self._stdin, line)

    def close(self) -> None:
        if self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1


class ForkServer:
    """The parent's side. `begin` before the loop runs; `start` and the rest within it."""

    def __init__(self, connection: socket.socket, number: int) -> None:
        self._connection, self._number = connection, number
        self._asked: deque[asyncio.Future[int]] = deque()
        self._running: dict[int, asyncio.Future[int | None]] = {}
        self.is_gone = self._is_heard = False

    @classmethod
    def begin(cls) -> ForkServer | None:
        """Fork it; None where that can't be done, or might inherit what somebody uses."""
        if sys.platform != "linux" or not signals.is_noted() or threading.active_count() > 1:
            return None
        _import_all()
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        number = os.fork()
        if number:
            its.close()
            ours.settimeout(0)
            return cls(ours, number)
        ours.close()
        streams.leave_results()
        from framework.cli.main import run

        raise SystemExit(run(_served(its)))

    async def start(self, options: Sequence[str], tells: int, shared: int) -> ForkedWorker:
        """A worker that runs with these options, tells its parent by this descriptor, and shares memory with it."""
        loop = asyncio.get_running_loop()
        if not self._is_heard:
            self._is_heard = True
            loop.add_reader(self._connection, self._hear)
        reading, writing = os.pipe()
        try:
            number: asyncio.Future[int] = loop.create_future()
            self._asked.append(number)
            socket.send_fds(self._connection, [json.dumps(list(options)).encode()], [reading, tells, shared])
        except OSError:
            self._lost()
        finally:
            os.close(reading)
        try:
            async with asyncio.timeout(START_SECONDS):
                pid = await number
        except TimeoutError:  # somebody has stopped it
            os.close(writing)
            self._lost()
            raise ConnectionResetError("the process that forks workers does not answer") from None
        except BaseException:
            os.close(writing)
            raise
        return ForkedWorker(pid, writing, self._running[pid])

    def close(self) -> None:
        """End it, also where somebody has stopped it; its workers are asked to end otherwise."""
        if self._is_heard and not self.is_gone:
            asyncio.get_running_loop().remove_reader(self._connection)
        self._connection.close()
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self._number, signal.SIGKILL)
            os.waitpid(self._number, 0)

    def _hear(self) -> None:
        try:
            news = self._connection.recv(MESSAGE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            news = b""
        if not news:
            self._lost()
            return
        number, code = json.loads(news)
        if code is None:
            asked = self._asked.popleft()
            self._running[number] = asyncio.get_running_loop().create_future()
            if not asked.done():
                asked.set_result(number)
        else:
            self._running.pop(number).set_result(code)

    def _lost(self) -> None:
        """Somebody has ended it. Its workers go on; how each of them ends is not to be learned any more."""
        if not self.is_gone:
            self.is_gone = True
            asyncio.get_running_loop().remove_reader(self._connection)
        for asked in self._asked:
            if not asked.done():
                asked.set_exception(ConnectionResetError("the process that forks workers has gone"))
        self._asked.clear()
        for ended in self._running.values():
            ended.set_result(None)
        self._running.clear()


def _import_all() -> None:
    """In the parent already: it needs half of it itself, and a page that nobody writes to is there once for all."""
    from framework.hooks.host import BUILT_IN

    for name in (*PRELOADED, *BUILT_IN.values()):
        import_module(name)
    gc.freeze()


def _served(connection: socket.socket) -> list[str]:
    """The server itself. Comes back in each worker alone, with its arguments."""
    os.setsid()
    signals.release()
    usual = {number: signal.signal(number, signal.SIG_IGN) for number in ENDING}
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    while True:
        ready = select.select([connection.fileno(), woken], [], [])[0]
        try:
            if woken in ready:
                os.read(woken, MESSAGE_BYTES)
                _tell_ends(connection)
            if connection.fileno() not in ready:
                continue
            message, descriptors, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, DESCRIPTORS)
            if not message:
                os._exit(ExitCode.CLEAN)
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # a worker that is asked to end already hears it later
            number = os.fork()
            if not number:
                break
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            for each in descriptors:
                os.close(each)
            connection.send(json.dumps([number, None]).encode())
        except ConnectionError:  # the parent has gone; the workers see it, too
            os._exit(ExitCode.CLEAN)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    connection.close()
    os.close(woken)
    os.close(wakes)
    for each, handler in usual.items():
        signal.signal(each, handler)
    arguments = _as_started(json.loads(message), *descriptors)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    return arguments


def _tell_ends(connection: socket.socket) -> None:
    with suppress(ChildProcessError):  # there is none
        while True:
            number, status = os.waitpid(-1, os.WNOHANG)
            if not number:
                return
            connection.send(json.dumps([number, os.waitstatus_to_exitcode(status)]).encode())


def _as_started(options: list[str], stdin: int, tells: int, shared: int) -> list[str]:
    """Make this process what a new interpreter would be; answers its arguments."""
    os.setsid()
    os.dup2(stdin, 0)
    os.close(stdin)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - it is this process's own, until its end
    arguments = ["run", *options, "--tells", str(tells), "--notes", str(shared)]
    sys.argv[1:] = arguments
    entry.note_signals(arguments)
    return arguments
