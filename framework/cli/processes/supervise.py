"""One parent over the processes of an application: N workers, restarts after changes and crashes, one end.

A bell wakes the parent; it looks at what has changed (a signal, a file, children that exited), decides, and acts. It
imports nothing of the application, so that an error in it can be fixed while the parent goes on.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from framework.cli.exit_codes import ExitCode, of_all
from framework.cli.live.sockets import WorkersControl
from framework.cli.output import Event, Totals, is_unheard
from framework.cli.processes.children import SHOWN_MAX, Child, Children
from framework.core.limits import TURNS_MS
from framework.net.task_tree import TaskTree
from framework.net.wakeup import Wakeup
from framework.runtime.signals import draining

if TYPE_CHECKING:
    from framework.cli.live.sockets import Place
    from framework.cli.processes.fork_server import ForkServer
    from framework.cli.watch import Stamp

log = structlog.get_logger()

LOOK_SECONDS = 0.4
FILES_SHOWN = 3
RESTART_SECONDS = 1.0
RESTART_SECONDS_MAX = 30.0
SOUND_SECONDS = 60.0
"""A child that ran this long before it exited resets the pause before a restart."""
# Children drain one after the other, so that queues change hands one member at a time; a child with much to
# finish delays the others by one turn only, and all turns together are not much longer than one.
TURN_SECONDS = 1.0
TURNS_SECONDS_MAX = TURNS_MS / 1000

# Exit codes that another start would only repeat.
_FINAL = frozenset({ExitCode.USAGE, ExitCode.UNREACHABLE, ExitCode.TAKEN, ExitCode.CONFIGURATION})


def nothing(event: Event) -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run, and how long."""

    options: list[str]
    """Of `framework-app run`, for each child."""
    control: Place
    """Where it listens for commands that ask what runs, or change it."""
    workers: int
    length_ms: int | None
    limits_ms: Callable[[], tuple[int, int]]
    """The drain, and all that the end of a child may take, as the settings say then."""
    files: Callable[[], Stamp] | None
    """The state of the files whose change means a restart; None for no restarts."""
    on_line: Callable[[str], None]
    greeting: Callable[[], Awaitable[str]] | None = None
    """What children are told first, on their stdin: asked for when they are already on their way up."""
    on_configured: Callable[[Event], None] = nothing
    """Told what the application consumes, before it connects: at the start, and after each restart."""
    on_ready: Callable[[Event], None] = nothing
    """Told the same once, when all children handle messages."""
    ends_unheard: bool = False
    """Whether it ends when nobody reads its lines any more, which are what it is run for."""
    fork_server: ForkServer | None = None
    """What children are forked by; None: each is a new interpreter."""
    survives: bool = False
    """Whether it waits for a changed file also where the very first start fails."""
    may_end: bool = False
    """Whether children end by themselves when they have done all there is (--until-idle): none is replaced then."""


@dataclass(slots=True)
class _State:
    is_asked: bool = False
    changed: list[str] = field(default_factory=list)
    """Files that have changed, and the children have not been restarted for."""
    facts: Event | None = None
    """What the application consumes, as the first child says it that got so far."""
    was_ready: bool = False
    restarted_at: float | None = None
    """When the children were started after a change, until they are ready."""
    is_waiting: bool = False
    """Every child exited with an error, and the next change of a file starts them again."""
    restart_seconds: float = RESTART_SECONDS
    codes: list[int] = field(default_factory=list)
    coming: Child | None = None
    """The successor of a child that was recycled; one is replaced at a time."""

    def pause(self, ran_seconds: float) -> float:
        """How long to wait before another takes the place of a child that ended unasked after so long."""
        if ran_seconds >= SOUND_SECONDS:
            self.restart_seconds = RESTART_SECONDS
        seconds = self.restart_seconds
        self.restart_seconds = min(seconds * 2, RESTART_SECONDS_MAX)
        return seconds


async def supervise(plan: Plan) -> tuple[int, Totals]:
    """Run until a signal, until the length is over, or until the children have ended by themselves."""
    bell, state, tree = Wakeup(), _State(), TaskTree()
    loop = asyncio.get_running_loop()

    def ask() -> None:
        state.is_asked = True
        bell.ring()

    def line(text: str) -> None:
        plan.on_line(text)
        if plan.ends_unheard and is_unheard() and not state.is_asked:
            ask()  # and go on reading the children until they have ended

    def told(event: Event) -> None:
        _told(plan, children, state, event, loop.time())

    children = Children(
        plan.options,
        on_line=line,
        on_told=told,
        changed=bell.ring,
        numbered=plan.workers > 1,
        fork_server=plan.fork_server,
    )
    control = WorkersControl(children, plan.workers, plan.control, lambda: state.is_asked)

    with draining(
        lambda: loop.call_soon_threadsafe(ask),
        leave=children.kill,
        reload=lambda: loop.call_soon_threadsafe(children.hand_on, signal.SIGHUP),
        tell=lambda: loop.call_soon_threadsafe(children.hand_on, signal.SIGUSR1),
    ):
        if plan.length_ms is not None:
            loop.call_later(plan.length_ms / 1000, ask)
        if plan.files is not None:
            tree.start(_watch(plan.files, state, bell), name="watch")
        control.open()
        try:
            await asyncio.sleep(0)  # a signal that came during the start is heard now
            if not state.is_asked:
                await _start(plan, children, plan.workers)
            code = await _until_the_end(plan, children, state, bell, tree)
        finally:
            await tree.close()
            await children.close()
            control.close()
    return code, children.totals


def _told(plan: Plan, children: Children, state: _State, event: Event, now: float) -> None:
    if event["event"] == "configured" and state.facts is None:
        state.facts = event
        plan.on_configured(event)
    if state.facts is None or not children.is_ready or len(children.running) < plan.workers:
        return
    if not state.was_ready:
        state.was_ready = True
        plan.on_ready(state.facts)
    elif state.restarted_at is not None:
        log.info("application restarted", elapsed_ms=round((now - state.restarted_at) * 1000))
    state.restarted_at = None


async def _until_the_end(plan: Plan, children: Children, state: _State, bell: Wakeup, tree: TaskTree) -> int:
    while True:
        await _rung(plan, children, bell)
        if state.is_asked:
            await _end(plan, children, bell, is_last=True)
            return _verdict(children, state)
        if state.changed:
            await _restart(plan, children, state, bell)
            continue
        for child in children.newly_ended():
            assert child.code is not None
            if child.culprits:
                _restart_one(plan, children, state, tree, child)
                continue
            if child.recycle_reason is not None and child.code in {ExitCode.CLEAN, ExitCode.ABANDONED}:
                state.coming = await children.start()
                continue
            if child.code in _FINAL and plan.files is None:
                await _end(plan, children, bell)
                return of_all([child.code])
            if child.code in _FINAL or (child.code == ExitCode.FAILED and plan.files is not None):
                if not state.was_ready and (plan.may_end or not plan.survives):
                    return of_all([child.code])  # the very first start: the user is still there to read it
                reason = "the next start waits for a changed file"
                log.warning("child failed", **_who(plan, child), code=child.code, reason=reason)
                state.is_waiting = True
            elif plan.may_end and child.code in {ExitCode.CLEAN, ExitCode.ABANDONED}:
                state.codes.append(child.code)
            else:
                _restart_one(plan, children, state, tree, child)
        _replace_one(children, state)
        if not children.running and len(state.codes) >= plan.workers and not state.is_waiting:
            return _verdict(children, state)


def _restart_one(plan: Plan, children: Children, state: _State, tree: TaskTree, child: Child) -> None:
    assert child.code is not None
    after = state.pause(child.ran_seconds)
    in_hand = [str(each) for each in child.culprits[:SHOWN_MAX]]
    log.error(
        "child restarted",
        **_who(plan, child), code=child.code, after_ms=round(after * 1000),
        **({"handlers": in_hand} if in_hand else {}), reason=_why(child),
    )  # fmt: skip
    tree.start(_start_later(plan, children, state, after), name="restart")


async def _rung(plan: Plan, children: Children, bell: Wakeup) -> None:
    """Wait for the bell; while children are ending, look after them."""
    loop = asyncio.get_running_loop()
    while True:
        is_ending = any(child.is_asked for child in children.running)
        if await bell.wait(loop.time() + LOOK_SECONDS if is_ending else None):
            return
        children.kill_late(loop.time(), *plan.limits_ms())


def _who(plan: Plan, child: Child) -> dict[str, int]:
    return {"worker": child.worker} if plan.workers > 1 else {}


def _why(child: Child) -> str:
    code = child.code
    if child.culprits:
        return "a handler ended it" if child.culprits[0].is_certain else "it ended while handlers ran"
    if code == ExitCode.HUNG:
        return "its handlers hang"
    # Somebody's signal to it alone, most likely: we have asked nothing of it.
    return "it ended by itself" if code in {ExitCode.CLEAN, ExitCode.ABANDONED} else "it crashed"


async def _start(plan: Plan, children: Children, count: int) -> None:
    started = [await children.start() for _ in range(count)]
    if plan.greeting is not None:
        line = await plan.greeting()
        for child in started:
            child.tell(line)


async def _start_later(plan: Plan, children: Children, state: _State, seconds: float) -> None:
    await asyncio.sleep(seconds)
    if not state.is_asked:
        await _start(plan, children, 1)


def _replace_one(children: Children, state: _State) -> None:
    """Have one child drain that is to be recycled, unless a successor is still starting."""
    coming = state.coming
    is_coming = coming is not None and coming.code is None and not coming.is_ready
    if is_coming or any(child.recycle_reason and child.is_asked for child in children.running):
        return
    for child in children.running:
        if child.recycle_reason is not None:
            log.info("worker recycled", worker=child.worker, reason=child.recycle_reason)
            child.ask_to_end()
            return


async def _end(plan: Plan, children: Children, bell: Wakeup, *, is_last: bool = False) -> None:
    loop = asyncio.get_running_loop()
    turn = min(TURN_SECONDS, TURNS_SECONDS_MAX / max(len(children.running), 1))
    while children.running:
        child = next((each for each in children.running if not each.is_asked), None)
        if child is None:
            if is_last:
                log.info("handlers awaited", processes=len(children.running), reason="a second signal exits at once")
                is_last = False
            await _rung(plan, children, bell)
            continue
        child.ask_to_end()
        until = loop.time() + turn
        while child.code is None and loop.time() < until:
            await bell.wait(until)


async def _restart(plan: Plan, children: Children, state: _State, bell: Wakeup) -> None:
    log.info("files changed", files=state.changed[:FILES_SHOWN])
    state.changed, state.facts, state.is_waiting = [], None, False
    await _end(plan, children, bell)
    children.forget()
    state.codes.clear()
    if not state.is_asked:
        state.restarted_at = asyncio.get_running_loop().time()
        await _start(plan, children, plan.workers)
    bell.ring()


async def _watch(files: Callable[[], Stamp], state: _State, bell: Wakeup) -> None:
    before = files()
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now = files()
        if now != before:
            state.changed = _newest_first(before, now)
            before = now
            bell.ring()


def _newest_first(before: Stamp, now: Stamp) -> list[str]:
    """The files that differ, by the name that a person knows them by; the one that was saved comes first."""
    changed = {**before, **now}.items() - (before.items() & now.items())
    return [os.path.relpath(name) for name, _ in sorted(changed, key=lambda each: each[1], reverse=True)]


def _verdict(children: Children, state: _State) -> int:
    """What the ends of all come to."""
    codes = state.codes + [child.code for child in children.newly_ended() if child.code is not None]
    return of_all(codes, abandoned=children.totals.coming_again)
