"""VirtualLoop: an asyncio event loop in which one seed decides what runs next and time jumps instead of passing.

It owns the clock, the order of steps, the trace hash and the life of every task. It knows nodes (whose step is this,
and may it run?), but neither network nor faults. Its laws:

- One handle runs a step. Ready ones are drawn by policy: `fifo` as the real loop; `shuffle` a random owner, but first
  in, first out within an owner (asyncio documents that order, and its own code needs it); `pct` random priorities that
  seldom change (Burckhardt et al.: finds bugs of few ordering constraints soonest).
- A step costs some virtual microseconds, drawn, so that timers race with work as they do in life.
- Timers are ordered by (when, creation). asyncio's own heap compares `when` only and lets equal ones fall as they may.
- Tasks and futures hash by a creation number, so sets of them iterate alike in every process.
- No task that still waits is thrown away before the end: dropping a dead process's coroutine would run its `finally`
  blocks, from the grave.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import hashlib
import heapq
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from pathlib import Path
from struct import Struct
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar

from framework.testing.errors import Deadlock, Runaway, SimEscape
from framework.testing.sim.node import CURRENT_NODE, Node
from framework.testing.sim.steps import NumberingLoop, Step, VirtualFuture, VirtualTask
from framework.testing.sim.streams import Streams

T = TypeVar("T")
Policy: TypeAlias = Literal["fifo", "shuffle", "pct"]
POLICIES: tuple[Policy, ...] = ("fifo", "shuffle", "pct")

STEP_COST_MIN = 2e-6
STEP_COST_MAX = 60e-6
_STEP_COST_RANGE = STEP_COST_MAX - STEP_COST_MIN
STEPS_MAX = 5_000_000
"""No run of ours needs a tenth of it; one that spins would otherwise never end."""
PRIORITY_CHANGES = 0.01
TASKS_KEPT = 1_000
"""Tasks that may have ended before they are looked for."""
LISTED_MAX = 40
"""Tasks that the text of a deadlock names."""
_TRACE_CHUNK = 1 << 15
_pack_step = Struct("<dII").pack


class VirtualLoop(NumberingLoop):
    """See the module. `note()` adds a fact of the caller's to the trace."""

    def __init__(self, seed: int = 0, *, policy: Policy = "shuffle", steps_max: int = STEPS_MAX) -> None:
        super().__init__()
        assert policy in POLICIES, f"policy {policy!r} is none of {', '.join(POLICIES)}"
        self.seed = seed
        self.policy: Policy = policy
        self.streams = Streams(seed)
        self.now = 0.0
        self.steps = 0
        self.steps_max = steps_max
        self.all_tasks: list[VirtualTask[Any]] = []
        """Every task that still waits, in order, see the module; of those that have ended the latest, and the ones
        whose error nobody asked for. What all others brought would be gigabytes where a thousand members ask for lists.
        """
        self._sift_at = TASKS_KEPT
        self.complaints: list[dict[str, Any]] = []
        """What asyncio would only have logged: exceptions in callbacks, and of tasks that nobody awaited."""
        self.on_second: Callable[[], None] | None = None
        """Called between two steps whenever a virtual second has passed: for looking on, without a step of its own."""
        self._next_second = 1.0
        self._ready: list[Step] = []
        self._heap: list[tuple[float, int, Step]] = []
        self.is_over = False
        """Burial has begun: nothing that happens now is part of the run."""
        self._stopping = False
        self._thread_id: int | None = None
        self._hash = hashlib.blake2b(digest_size=16)
        self._trace = bytearray()
        self._labels: dict[str, int] = {}
        self._priorities: dict[int, float] = {}
        self.set_exception_handler(lambda _loop, complaint: self.complaints.append(complaint))

    def __repr__(self) -> str:
        return f"<VirtualLoop seed={self.seed} {self.policy} at {self.now:.6f}s, {self.steps} steps>"

    # -- time, numbers, the trace

    def time(self) -> float:
        return self.now

    def note(self, *facts: object) -> None:
        """Make these facts part of the trace hash. They must print alike everywhere: no addresses, no sets."""
        self._trace += repr(facts).encode()

    def trace_hash(self) -> str:
        self._hash.update(self._trace)
        self._trace.clear()
        return self._hash.hexdigest()

    # -- making things

    def create_future(self) -> asyncio.Future[Any]:
        return VirtualFuture(loop=self)

    def create_task(  # type: ignore[override]  # typeshed's overloads differ between versions
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **options: Any,
    ) -> VirtualTask[T]:
        assert not options.get("eager_start"), "an eager task skips a step: the schedule would depend on the version"
        task = VirtualTask(coro, loop=self, name=name, context=context)
        self.all_tasks.append(task)
        if len(self.all_tasks) >= self._sift_at and not self.is_over:
            self.all_tasks = [each for each in self.all_tasks if not each.done() or each.has_unread_error]
            self._sift_at = 2 * len(self.all_tasks) + TASKS_KEPT
        return task

    def spawn(self, node: Node, coro: Coroutine[Any, Any, T], *, name: str | None = None) -> VirtualTask[T]:
        """Start a task inside a simulated process."""
        return self.create_task(coro, name=name, context=node.context.copy())

    def call_soon(  # type: ignore[override]  # typeshed ties args to the callback; Step keeps them untyped
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Step:
        step = Step(callback, args, self, context, self.now)
        if not self.is_over:
            self._ready.append(step)
        return step

    def call_at(  # type: ignore[override]  # as call_soon
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Step:
        step = Step(callback, args, self, context, when)
        if not self.is_over:
            self._numbers += 1
            heapq.heappush(self._heap, (when, self._numbers, step))
        return step

    def call_later(  # type: ignore[override]  # as call_soon
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Step:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_soon_threadsafe(  # type: ignore[override]  # as call_soon
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Step:
        if self._thread_id is not None and threading.get_ident() != self._thread_id:
            raise SimEscape("call_soon_threadsafe from another thread: there are none here; use the workers of World")
        return self.call_soon(callback, *args, context=context)

    # -- running

    def _run_once(self) -> None:
        """Steps until somebody says stop. BaseEventLoop calls this in a loop of its own, which costs a call a step."""
        ready, heap = self._ready, self._heap
        draw = self.streams.schedule.random
        trace = self._trace
        fifo = self.policy == "fifo"
        while not self._stopping:
            while heap and (heap[0][2].is_cancelled or heap[0][0] <= self.now):
                step = heapq.heappop(heap)[2]
                if not step.is_cancelled:
                    ready.append(step)
            if not ready:
                if not heap:
                    raise self._deadlock()
                self.now = heap[0][0]
                continue
            step = ready.pop(0 if fifo or len(ready) == 1 else self._pick())
            if step.is_cancelled:
                continue
            node = step.context.get(CURRENT_NODE)
            if node is not None and (node.is_held or not node.is_alive):
                if node.is_alive:
                    node.held.append(step)
                continue
            self.steps += 1
            owner = step.owner
            label = owner.number if type(owner) is VirtualTask else self._label(step)
            trace += _pack_step(self.now, len(ready), label)
            if len(trace) > _TRACE_CHUNK:
                self._hash_away()
            if self.now >= self._next_second:
                self._second()
            self.now += STEP_COST_MIN + _STEP_COST_RANGE * draw()
            step.run()

    def _hash_away(self) -> None:
        self._hash.update(self._trace)
        self._trace.clear()
        if self.steps > self.steps_max:
            raise Runaway(f"seed {self.seed}: {self.steps} steps by {self.now:.3f}s; something spins")

    def _second(self) -> None:
        self._next_second = int(self.now) + 1.0
        if self.on_second is not None:
            self.on_second()

    def timers(self) -> Iterator[Step]:
        """What is to run later and was not cancelled, in no order."""
        return (step for _, _, step in self._heap if not step.is_cancelled)

    def _pick(self) -> int:
        """The index of the step to run next: of the drawn owner, the one that has waited longest."""
        ready = self._ready
        if self.policy == "pct":
            index = self._most_urgent()
        else:
            index = int(self.streams.schedule.random() * len(ready))
        owner = ready[index].owner
        for earlier in range(index):
            if ready[earlier].owner is owner:
                return earlier
        return index

    def _most_urgent(self) -> int:
        draw = self.streams.schedule.random
        best_index, best_key, best = 0, 0, 2.0
        for index, step in enumerate(self._ready):
            owner = step.owner
            key = owner.number if type(owner) is VirtualTask else -self._label(step)
            priority = self._priorities.get(key)
            if priority is None:
                priority = self._priorities[key] = draw()
            if priority < best:
                best_index, best_key, best = index, key, priority
        if draw() < PRIORITY_CHANGES:
            self._priorities[best_key] = draw()
        return best_index

    def _label(self, step: Step) -> int:
        """A small number for who acts in a step that is no task's: its owner's own, or one for the function's name."""
        number: int | None = getattr(step.owner, "trace_number", None)
        if number is not None:
            return number
        function = step.callback
        name: str = getattr(function, "__qualname__", "") or step.name
        known = self._labels.get(name)
        if known is None:
            known = self._labels[name] = len(self._labels) + 1
            self.note("label", name, known)
        return known

    def _deadlock(self) -> Deadlock:
        waiting = list_waiting(self.all_tasks)
        return Deadlock(
            f"seed {self.seed}, {self.policy}: nothing is left to run at {self.now:.6f}s; "
            f"{len(waiting)} waiting: {'; '.join(waiting) or 'none'}"
        )

    # -- processes

    def hold(self, node: Node, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after so long; also what a handler that blocks does to its own process."""
        until = self.now + seconds
        if node.is_alive and until > node.held_until:
            node.is_held = True
            node.held_until = until
            self.call_at(until, self._release, node, context=NOWHERE)

    def _release(self, node: Node) -> None:
        if node.held_until <= self.now:  # else somebody has held it again for longer
            node.is_held = False
            self._ready[0:0] = node.held
            node.held.clear()

    def kill(self, node: Node, *, silently: bool) -> None:
        """SIGKILL: the kernel closes its connections; silently: the machine is gone, and peers hear nothing."""
        node.is_alive = False
        node.held.clear()
        endpoints = list(node.endpoints.values())
        node.endpoints.clear()
        for endpoint in endpoints:
            endpoint.owner_died(silently=silently)

    # -- the end

    def bury(self) -> None:
        """Close every coroutine that still waits, in order, against a loop that schedules nothing any more."""
        self.is_over = True
        self._ready.clear()
        self._heap.clear()
        asyncio._set_running_loop(self)  # noqa: SLF001  # made for loops; finally blocks may ask for it
        try:
            for task in self.all_tasks:  # grows while a finally block starts further tasks
                if not task.done():
                    task.forget()
                    task.context.run(_close, task.get_coro())
        finally:
            asyncio._set_running_loop(None)  # noqa: SLF001  # likewise
        self.all_tasks.clear()
        self.close()

    def __del__(self) -> None:
        """Nothing to complain of: a loop that never ran holds nothing of the system."""

    # -- what does not exist here

    def _process_events(self, event_list: Any) -> None:
        """Part of BaseEventLoop's shape; there are no events but our own."""

    def _write_to_self(self) -> None:
        """Part of BaseEventLoop's shape; nobody sleeps in a selector."""


def _escape(_loop: VirtualLoop, *_args: Any, **_options: Any) -> NoReturn:
    raise SimEscape(
        "a real socket, thread, signal, process or look-up in virtual time: give the handler a fake, "
        "or try it with `framework-app dev`"
    )


_KEPT_FAMILIES = ("_", "call_", "close", "create_future", "create_task", "get_", "is_", "run_", "set_", "shutdown_")
_KEPT = {"default_exception_handler", "stop", "time"}
_GONE = {"run_in_executor", "set_default_executor"}
for _name in dir(asyncio.AbstractEventLoop):
    if _name in _GONE or not (_name in _KEPT or _name.startswith(_KEPT_FAMILIES)):
        setattr(VirtualLoop, _name, _escape)


NOWHERE = contextvars.Context()
"""The context of the world itself, which belongs to no node; what is scheduled in it survives every kill."""


def _close(coro: Coroutine[Any, Any, Any] | Generator[Any, Any, Any] | None) -> None:
    # A finally block that awaits makes close() raise and leaves the coroutine at that await: ask until it is through.
    for _ in range(100):
        if coro is None:
            return
        try:
            coro.close()
        except BaseException:  # noqa: BLE001, S112  # border: a dead process's finally blocks, which no longer matter
            continue
        return


def list_waiting(tasks: Iterable[asyncio.Task[Any]]) -> list[str]:
    """One line a task that is not done, the first forty: its name and the innermost place where it waits."""
    lines = [f"{task.get_name()} in {_place(task)}" for task in tasks if not task.done()]
    if len(lines) > LISTED_MAX:
        lines[LISTED_MAX:] = [f"and {len(lines) - LISTED_MAX} more"]
    return lines


def _place(task: asyncio.Task[Any]) -> str:
    awaited: Any = task.get_coro()
    place = "its first step"
    while awaited is not None:
        frame = _either(awaited, "cr_frame", "gi_frame", "ag_frame")
        if frame is None:
            break
        code = frame.f_code
        place = f"{code.co_qualname} ({Path(code.co_filename).name}:{frame.f_lineno})"
        awaited = _either(awaited, "cr_await", "gi_yieldfrom", "ag_await")
    return place


def _either(thing: object, *names: str) -> Any:
    """Coroutines and generators keep the same things under different names."""
    for name in names:
        if hasattr(thing, name):
            return getattr(thing, name)
    return None


def run(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]], *, seed: int = 0, policy: Policy = "shuffle") -> T:
    """Run `main(loop)` to its end in virtual time."""
    loop = VirtualLoop(seed, policy=policy)
    return run_on(loop, main(loop))


def run_on(loop: VirtualLoop, main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end on a loop that the caller made, whose figures stay readable afterwards.

    The garbage collector is off meanwhile: when it runs depends on memory, and finalizers are steps nobody drew.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.trace_hash()
        loop.bury()
        if collects:
            gc.enable()
