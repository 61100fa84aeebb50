"""Child processes that run one application: started, read line by line, asked to end, counted.

Children have a session of their own, so that Ctrl-C reaches the parent alone and everything ends in one order. Each one
holds the reading end of a pipe from us: when we are gone, however that went, it drains and ends. `supervise.py` decides
when and why children are started.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable

from framework.cli.output import Totals, event_in, totals_in
from framework.net.task_tree import TaskTree

LINE_BYTES_MAX = 1 << 20


class Child:
    """One process. `code` is None while it runs."""

    def __init__(self, process: Process, worker: int = 0) -> None:
        self._process = process
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

    def tell(self, line: str) -> None:
        """One line on its stdin, which stays open: its end is how a child learns that we are gone."""
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
        """Hand on what it prints until it has ended."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        stream = self._process.stdout
        assert stream is not None
        while True:
            try:
                line = await stream.readline()
            except ValueError:
                continue  # a line longer than the limit, which a handler printed: the stream has dropped it
            if not line:
                break
            on_line(self, line.decode(errors="replace").rstrip("\n"))
        code = await self._process.wait()
        self.ran_seconds = loop.time() - began
        self.code = code

    def __repr__(self) -> str:
        return f"<Child {self._process.pid} {'runs' if self.code is None else f'ended with {self.code}'}>"


class Children:
    """Children that run the same command, and the sum of what they did."""

    def __init__(self, options: list[str], *, on_line: Callable[[str], None], changed: Callable[[], None]) -> None:
        self.totals = Totals()
        self.all: list[Child] = []
        self._options, self._on_line, self._changed = options, on_line, changed
        self._tree = TaskTree()
        self._starting: list[int] = []
        """Numbers of children that are on their way."""

    async def start(self) -> Child:
        """Start one more."""
        taken = {child.worker for child in self.running} | set(self._starting)
        worker = next(number for number in range(len(taken) + 1) if number not in taken)
        self._starting.append(worker)
        try:
            process = await self._spawn(worker)
        finally:
            self._starting.remove(worker)
        child = Child(process, worker)
        self.all.append(child)
        self._tree.start(self._follow(child), name=f"child {process.pid}")
        self._changed()
        return child

    async def _spawn(self, worker: int) -> Process:
        options = ["--child-number", str(worker), *self._options] if worker else self._options
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "framework", "run", *options,
            stdin=PIPE, stdout=PIPE, start_new_session=True, limit=LINE_BYTES_MAX,
        )  # fmt: skip

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
        if event is not None and event["event"] in {"ready", "recycle"}:
            child.is_ready = True
            if event["event"] == "recycle":  # said once, and where messages wait, before "ready"
                child.recycle_reason = event.get("reason")
            self._changed()
            return
        self._on_line(line)

    @property
    def running(self) -> list[Child]:
        return [child for child in self.all if child.code is None]

    @property
    def is_ready(self) -> bool:
        return bool(self.all) and all(child.is_ready for child in self.all)

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

    async def close(self) -> None:
        self.kill()
        await self._tree.close()
