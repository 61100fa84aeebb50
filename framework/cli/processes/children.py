"""Child processes that run one application: started, read line by line, asked to end, counted.

Children have a session of their own, so that Ctrl-C reaches the parent alone and everything ends in one order. Each one
holds the reading end of a pipe from us: when we are gone, however that went, it drains and ends. What they tell us
comes by a second pipe. Their stdout is ours, and nothing that a handler prints is taken for what a child tells.
`supervise.py` decides when and why children are started.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress

import structlog

from framework.cli.output import Event, Totals, event_in, totals_in
from framework.cli.processes.fork_server import ForkedWorker, ForkServer
from framework.net.task_tree import TaskTree

log = structlog.get_logger()

LINE_BYTES_MAX = 1 << 20
KILLED_SECONDS = 2.0
TOLD = frozenset({"configured", "ready", "recycle"})
"""Events about the process itself; the others are about messages."""


class Child:
    """One process. `code` is None while it runs."""

    def __init__(self, process: Process | ForkedWorker, lines: asyncio.StreamReader, worker: int = 0) -> None:
        self._process, self._lines = process, lines
        self.worker = worker
        """Its number among its siblings; its successor gets the same."""
        self.code: int | None = None
        self.ran_seconds = 0.0
        """How long it ran, once it has ended."""
        self.is_ready = False
        self.is_asked = False
        """Whether it was asked to end."""
        self.recycle_reason: str | None = None
        """Why it should be replaced, as it says itself."""
        self.is_seen = False
        """Whether the supervisor has dealt with its end."""

    @property
    def number(self) -> int:
        """Of the process."""
        return self._process.pid

    def tell(self, line: str) -> None:
        """One line on its stdin, which stays open: its end is how a child learns that we are gone."""
        if isinstance(self._process, ForkedWorker):
            self._process.tell(f"{line}\n".encode())
            return
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    def ask_to_end(self) -> None:
        self.is_asked = True
        self._signal(signal.SIGTERM)

    def ask_to_reload(self) -> None:
        """One that is still coming up reads the settings in a moment anyway, and would die of the signal."""
        if self.is_ready:
            self._signal(signal.SIGHUP)

    def ask_to_tell(self) -> None:
        """Likewise: one that is coming up does not know the signal yet."""
        if self.is_ready:
            self._signal(signal.SIGUSR1)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            try:
                os.kill(self._process.pid, number)
            except ProcessLookupError:
                return  # it ended by itself in this very moment

    async def follow(self, on_line: Callable[[Child, str], None]) -> None:
        """Hand on what it tells us until it has ended."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            try:
                line = await self._lines.readline()
            except ValueError:
                continue  # a line longer than the limit, such as of a giant key: the stream has dropped it
            if not line:
                break
            on_line(self, line.decode(errors="replace").rstrip("\n"))
        code = await self._process.wait()
        self.ran_seconds = loop.time() - began
        self.code = code

    async def gone(self) -> None:
        """Wait until it is, after `kill`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(KILLED_SECONDS):
                await self._process.wait()

    def __repr__(self) -> str:
        return f"<Child {self._process.pid} {'runs' if self.code is None else f'ended with {self.code}'}>"


class Children:
    """Children that run the same command, and the sum of what they did."""

    def __init__(
        self,
        options: list[str],
        *,
        on_line: Callable[[str], None],
        on_told: Callable[[Event], None],
        changed: Callable[[], None],
        numbered: bool = False,
        fork_server: ForkServer | None = None,
    ) -> None:
        """`numbered`: there are several, so each says which one it is."""
        self.totals = Totals()
        self.all: list[Child] = []
        self._options, self._numbered, self._fork_server = options, numbered, fork_server
        self._on_line, self._on_told, self._changed = on_line, on_told, changed
        self._tree = TaskTree()
        self._starting: list[int] = []
        """Numbers of children that are on their way."""
        self._mistakes: dict[str, set[int]] = {}
        """What starts failed by -> the workers that said so since it was written."""

    async def start(self) -> Child:
        """Start one more."""
        taken = {child.worker for child in self.running} | set(self._starting)
        worker = next(number for number in range(len(taken) + 1) if number not in taken)
        self._starting.append(worker)
        try:
            child = await self._spawn(worker)
        finally:
            self._starting.remove(worker)
        self.all.append(child)
        self._tree.start(self._follow(child), name=f"child {worker}")
        self._changed()
        return child

    async def _spawn(self, worker: int) -> Child:
        reading, writing = os.pipe()
        options = self._options + (["--child-number", str(worker)] if self._numbered or worker else [])
        lines = asyncio.StreamReader(limit=LINE_BYTES_MAX)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), os.fdopen(reading, "rb", 0)
        )
        try:
            process = await self._forked(options, writing) or await asyncio.create_subprocess_exec(
                sys.executable, "-m", "framework", "run", *options, "--tells", str(writing),
                stdin=PIPE, pass_fds=(writing,), start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(writing)  # then the end of the child is the end of its lines
        return Child(process, lines, worker)

    async def _forked(self, options: list[str], tells: int) -> ForkedWorker | None:
        if self._fork_server is None:
            return None
        try:
            return await self._fork_server.start(options, tells)
        except ConnectionError as error:
            log.warning("workers start slowly", reason=str(error))
            self._fork_server = None
            return None

    async def _follow(self, child: Child) -> None:
        try:
            await child.follow(self._line)
        finally:
            self._changed()

    def _line(self, child: Child, line: str) -> None:
        totals = totals_in(line)
        if totals is not None:
            self.totals.add(totals)
            return
        event = event_in(line)
        if event is not None and event["event"] == "mistake":
            self._failed(child, str(event["text"]))
            return
        if event is not None and event["event"] in TOLD:
            child.is_ready = child.is_ready or event["event"] != "configured"
            if event["event"] == "recycle":  # said once, and where messages wait, before "ready"
                child.recycle_reason = event.get("reason")
            self._on_told(event)
            self._changed()
            return
        self._on_line(line)

    def _failed(self, child: Child, text: str) -> None:
        """Write it once for all workers; again when one of them has started anew and failed by the same."""
        said_by = self._mistakes.get(text, {child.worker})
        if child.worker in said_by:
            sys.stderr.write(text)
            said_by = set()
        self._mistakes[text] = said_by | {child.worker}

    @property
    def running(self) -> list[Child]:
        return [child for child in self.all if child.code is None]

    @property
    def is_ready(self) -> bool:
        running = self.running
        return bool(running) and all(child.is_ready for child in running)

    def newly_ended(self) -> list[Child]:
        """Children whose end nobody has dealt with yet; each is named once."""
        ended = [child for child in self.all if child.code is not None and not child.is_seen]
        for child in ended:
            child.is_seen = True
        return ended

    def ask_to_reload(self) -> None:
        for child in self.running:
            child.ask_to_reload()

    def ask_to_tell(self) -> None:
        for child in self.running:
            child.ask_to_tell()

    def kill(self) -> None:
        for child in self.running:
            child.kill()

    def forget(self) -> None:
        """Leave out those that have ended; their counts stay."""
        self.all = self.running
        self._mistakes.clear()

    async def close(self) -> None:
        self.kill()
        for child in self.running:
            await child.gone()  # one that outlived the event loop would have asyncio say so
        await self._tree.close()
        if self._fork_server is not None:
            self._fork_server.close()
