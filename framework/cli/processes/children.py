"""Child processes that run one application: started, read line by line, asked to end, counted.

Children have a session of their own, so that Ctrl-C reaches the parent alone and everything ends in one order. Each one
holds the reading end of a pipe from us: when we are gone, however that went, it drains and ends. What they tell us
comes by a second pipe. Their stdout is ours, and nothing that a handler prints is taken for what a child tells. What
they are handling stands in memory that we share. The end of a child is the end of its process: what a handler has left
behind may hold its pipes for ever.
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

from framework.cli.exit_codes import ExitCode
from framework.cli.output import Event, Totals, event_in, totals_in
from framework.cli.processes.fork_server import ForkedWorker, ForkServer
from framework.net.task_tree import TaskTree
from framework.services.call.notes import ALONE_FROM, ENDS_MAX, EndsSoFar, Note, Notes, shared_memory

log = structlog.get_logger()

LINE_BYTES_MAX = 1 << 20
KILLED_SECONDS = 2.0
LOOK_SECONDS = 0.5
"""How often one that says nothing is looked at: it may have ended with its pipes held."""
ENDED_LOOK_SECONDS = 0.02
SILENT_SECONDS = 5.0
"""Behind the drain a child says several times a second that it is still ending; one that does not stands still."""
SHOWN_MAX = 5
REMEMBERED = 256
"""Messages of which is known how often they ended processes."""
TOLD = frozenset({"configured", "ready", "recycle"})
"""Events about the process itself; the others are about messages."""


class Child:
    """One process. `code` is None while it runs."""

    def __init__(
        self,
        process: Process | ForkedWorker,
        lines: asyncio.StreamReader,
        worker: int = 0,
        notes: Notes | None = None,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        """`close` is called when it has ended."""
        self._process, self._lines, self._notes, self._close = process, lines, notes, close
        self.worker = worker
        """Its number among its siblings; its successor gets the same."""
        self.code: int | None = None
        self.ran_seconds = 0.0
        """How long it ran, once it has ended."""
        self.is_ready = False
        self.is_asked = self.is_killed = False
        """Whether it was asked to end; and made to."""
        self._asked_at = self._word_at = 0.0
        """When that was; when it said that it is still ending."""
        self.culprits: list[Note] = []
        """What it was handling when it ended, though nobody had asked it to."""
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
        self._asked_at = asyncio.get_running_loop().time()
        self._signal(signal.SIGTERM)

    def is_ending(self) -> None:
        """It says so itself."""
        self._word_at = asyncio.get_running_loop().time()

    def is_late(self, now: float, drain_ms: int, most_ms: int) -> bool:
        """Whether it has had the time that an end may take, or stands still behind its drain. One that is still coming
        up has not heard of its end yet.
        """
        if not self.is_asked or self.is_killed or self.code is not None:
            return False
        silent = now - max(self._asked_at + drain_ms / 1000, self._word_at)
        is_still = self.is_ready and silent > SILENT_SECONDS
        return is_still or now - self._asked_at > most_ms / 1000 + SILENT_SECONDS

    @property
    def in_hand(self) -> list[Note]:
        return [] if self._notes is None else self._notes.in_hand()

    def accuse(self, exits: ExitTally) -> None:
        """Tell it which messages have ended processes."""
        if self._notes is not None and self.code is None:
            self._notes.accuse(exits.ends)

    def hand_on(self, number: signal.Signals) -> None:
        """One that is still coming up would die of it, and reads the settings in a moment anyway."""
        if self.is_ready:
            self._signal(number)

    def kill(self) -> None:
        self.is_killed = True
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
                async with asyncio.timeout(LOOK_SECONDS):
                    line = await self._lines.readline()
            except TimeoutError:
                if self._process.returncode is not None or self._is_gone:
                    break  # what it has said is read, and what holds the pipe has nothing to say
                continue
            except ValueError:
                continue  # a line longer than the limit, such as of a giant key: the stream has dropped it
            if not line:
                break
            on_line(self, line.decode(errors="replace").rstrip("\n"))
        # Not `wait`: where a grandchild holds its stdin, asyncio's would wait for that, too.
        until = loop.time() + KILLED_SECONDS
        while (code := self._process.returncode) is None:
            if self._is_gone and loop.time() > until:
                code = int(ExitCode.FAILED)  # who could say how it ended has been stopped
                break
            await asyncio.sleep(ENDED_LOOK_SECONDS)
        self.ran_seconds = loop.time() - began
        if self._notes is not None and not (self.is_asked or self.is_killed or self._notes.is_over):
            self.culprits = self._notes.in_hand()
        if self.is_killed and self.is_asked:
            code = ExitCode.ABANDONED if self.is_ready else ExitCode.CLEAN
        self._close()
        self.code = code

    @property
    def _is_gone(self) -> bool:
        """Whether there is no such process, whatever is known of its end."""
        return isinstance(self._process, ForkedWorker) and not self._process.is_alive

    async def gone(self) -> None:
        """Wait until it is, after `kill`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(KILLED_SECONDS):
                while self._process.returncode is None and not self._is_gone:  # noqa: ASYNC110 - it has no bell
                    await asyncio.sleep(ENDED_LOOK_SECONDS)

    def __repr__(self) -> str:
        return f"<Child {self._process.pid} {'runs' if self.code is None else f'ended with {self.code}'}>"


class ExitTally:
    """Which messages were in hand when processes ended unasked, and how often; its owner is the parent."""

    def __init__(self) -> None:
        self.ends: dict[str, EndsSoFar] = {}
        """By the keys of notes, the last one last."""

    def ended(self, notes: list[Note]) -> None:
        """A process ended with these in hand."""
        for note in notes:
            before = max(self.ends.pop(key, EndsSoFar(0, 0)) for key in note.keys)
            is_counted = before.times < ALONE_FROM or note.is_alone or note.is_certain
            ends = EndsSoFar(before.times + is_counted, max(before.attempt, note.attempt))
            self.ends |= dict.fromkeys(note.keys, ends)
            if is_counted and ends.times >= ENDS_MAX:
                log.error(
                    "message ends processes",
                    group=note.group, message_id=note.message_id, queue=note.queue, offset=note.offset,
                    attempt=note.attempt, ends=ends.times, place=note.place,
                    remedy="it fails from now on, and is retried as far as max_retries; then `exits` decides",
                )  # fmt: skip
        while len(self.ends) > REMEMBERED:
            innocent = next((key for key, ends in self.ends.items() if ends.times == 1), next(iter(self.ends)))
            del self.ends[innocent]


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
        self.exits = ExitTally()
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
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), os.fdopen(reading, "rb", 0)
        )
        shared = shared_memory()
        try:
            notes = Notes(shared)
            notes.accuse(self.exits.ends)
            process = await self._forked(options, writing, shared) or await asyncio.create_subprocess_exec(
                sys.executable, "-P",  # as in this process, a file here hides no module of Python's
                "-m", "framework", "run", *options, "--tells", str(writing), "--notes", str(shared),
                stdin=PIPE, pass_fds=(writing, shared), start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(writing)  # then the end of the child is the end of its lines
            os.close(shared)

        def close() -> None:
            transport.close()
            notes.close()
            if isinstance(process, ForkedWorker):
                process.close()

        return Child(process, lines, worker, notes, close)

    async def _forked(self, options: list[str], tells: int, shared: int) -> ForkedWorker | None:
        if self._fork_server is None:
            return None
        try:
            return await self._fork_server.start(options, tells, shared)
        except ConnectionError as error:
            log.warning("workers start slowly", reason=str(error))
            self._fork_server = None
            return None

    async def _follow(self, child: Child) -> None:
        try:
            await child.follow(self._line)
            if child.culprits:
                self.exits.ended(child.culprits)
                for each in self.running:
                    each.accuse(self.exits)
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
        if event is not None and event["event"] == "ending":
            child.is_ending()
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

    def hand_on(self, number: signal.Signals) -> None:
        for child in self.running:
            child.hand_on(number)

    def kill(self) -> None:
        for child in self.running:
            child.kill()

    def kill_late(self, now: float, drain_ms: int, most_ms: int) -> None:
        """Those that were asked to end and do not."""
        for child in self.running:
            if child.is_late(now, drain_ms, most_ms):
                in_hand = child.in_hand
                log.error(
                    "worker killed",
                    worker=child.worker, process=child.number, running=len(in_hand),
                    handlers=[str(each) for each in in_hand[:SHOWN_MAX]],
                    reason="its time to end is over: it was stopped, or code holds its interpreter",
                )  # fmt: skip
                self.totals.abandoned += len(in_hand)
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
