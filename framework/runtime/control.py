"""Control: what a running application answers at its control socket, and how its event loop turns.

Requests come on threads of their own. What they ask of the application is done on its event loop; where that does not
answer in time, they say so, and where it is. The commands behind it: `pause`, `resume`, `resize`, `stacks`, `snapshot`,
`health`, `top`; and `dashboard`, which alone decides about a handler that runs.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent import futures
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import structlog

from framework import __version__
from framework.errors import FrameworkError, nearest, shorten
from framework.model.outcome import DeadLetter, Extend, Outcome, RetryLater
from framework.model.queue import MessageQueue
from framework.model.snapshot import StallSnapshot
from framework.net.control.asking import Answer, Request
from framework.net.control.serving import ControlSocket
from framework.ports import World
from framework.runtime.report.observe import running_handlers
from framework.runtime.report.reasons import blocked
from framework.runtime.report.stacks import stacks_of_threads
from framework.runtime.report.stalls import StallWatch

if TYPE_CHECKING:
    from framework.runtime.app import App
    from framework.runtime.group.group import ConsumerGroup
    from framework.runtime.observe.listener import ObserveListener

T = TypeVar("T")
log = structlog.get_logger()

BY_MAX, REASON_MAX = 128, 500
"""Signs of a pause's author and reason that are kept."""
ANSWER_SECONDS = 3.0
"""How long the event loop is waited for. One that needs longer is blocked, for whoever asks."""
AUTO = "auto"
DECISIONS: Mapping[str, Any] = {"extend": Extend, "send_back": RetryLater, "bury": DeadLetter}
"""What may be decided about a handler that runs."""


class Stopping(NamedTuple):
    """What an application's end may take, and what it waits for."""

    drain_ms: int
    running: Callable[[], list[dict[str, Any]]]
    hanging: int
    """Workers, all groups together, that are missing because timed-out handlers do not return."""


class _Blocked(Exception):
    """The event loop has not answered."""


class _Refused(Exception):
    """What was asked for cannot be done; the text says why."""


class Control:
    """One an application, from `start` to `stop`. A simulation has neither threads nor sockets, and nobody asks it."""

    def __init__(self, app: App, world: World, groups: Callable[[], list[ConsumerGroup]]) -> None:
        self._app, self._watchman, self._groups = app, world.watchman, groups
        self._stalls = StallWatch(world.clock)
        self._socket: ControlSocket | None = None
        self._listener: ObserveListener | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asks: dict[str, Callable[[Request], Answer]] = {
            "about": lambda _: self._about(),
            "snapshot": lambda _: {"snapshot": asdict(self._asked(self._app.snapshot))},
            "health": self._health,
            "stacks": lambda _: self._stacks(),
            "pause": lambda request: self._change(request, "pause"),
            "resume": lambda request: self._change(request, "resume"),
            "resize": lambda request: self._change(request, "resize"),
            "decide": self._decide,
        }

    def start(self) -> None:
        if self._watchman is None:
            return
        self._loop = asyncio.get_running_loop()
        self._stalls.start(self._watchman)
        place = self._app.settings.app.control
        if place not in {"", AUTO}:
            self._socket = ControlSocket(Path(place).expanduser(), self.answer, self._watchman)
            self._socket.open()
        observe = self._app.settings.observe
        if observe.listen and self._app.is_alone:
            from framework.runtime.observe.listener import ObserveListener

            self._listener = ObserveListener(observe, self.answer, self._watchman, self._app.mounted)
            self._listener.open()

    def stop(self) -> None:
        self._stalls.stop()
        if self._socket is not None:
            self._socket.close()
        if self._listener is not None:
            self._listener.close()

    def stalls(self) -> StallSnapshot:
        return self._stalls.picture()

    # On threads of the socket

    def answer(self, request: Request) -> Answer:
        """One answer to one request, with who gives it."""
        ask = self._asks.get(str(request.get("ask")))
        try:
            if ask is None:
                known = ", ".join(self._asks)
                raise _Refused(f"nothing is known of {shorten(request.get('ask'))}; ask for one of: {known}")
            found = ask(request)
        except (_Refused, FrameworkError) as error:
            found = {"error": str(error)}
        except _Blocked:
            found = {"error": self._why_blocked(), "is_blocked": True}
        return {"worker": self._app.worker, "process": os.getpid(), **found}

    def _asked(self, what: Callable[[], T]) -> T:
        """The same done on the event loop, between two of its steps."""
        made: futures.Future[T] = futures.Future()

        def make() -> None:
            if made.set_running_or_notify_cancel():
                try:
                    made.set_result(what())
                except Exception as error:  # noqa: BLE001 - border: it is the asker's, on his thread
                    made.set_exception(error)

        assert self._loop is not None, "nobody asks before the start"
        try:
            self._loop.call_soon_threadsafe(make)
        except RuntimeError:
            raise _Refused("the application has stopped") from None
        with suppress(futures.TimeoutError):
            return made.result(ANSWER_SECONDS)
        if not made.cancel():
            return made.result()  # it is being done this very moment
        raise _Blocked

    def _why_blocked(self) -> str:
        blocked_ms = max(self._stalls.picture().blocked_ms, int(ANSWER_SECONDS * 1000))
        return blocked(blocked_ms, self._stalls.current_place)

    def _about(self) -> Answer:
        settings = self._app.settings.app
        return {"name": settings.name, "instance": settings.instance, "version": __version__, **self._app.about}

    def _health(self, request: Request) -> Answer:
        """Whether it lives, or with `ready` whether it is ready, and why not."""
        try:
            if self._stalls.picture().blocked_ms >= ANSWER_SECONDS * 1000:
                raise _Blocked  # a probe has no time to wait for what is known
            picture = self._asked(self._app.snapshot)
        except _Blocked:
            return {"reasons": [self._why_blocked()], "phase": None, "is_blocked": True}
        reasons = picture.not_ready if request.get("ready") is True else picture.not_live
        paused = [
            {"group": each.own_name, "pause": None if each.pause is None else asdict(each.pause)}
            for each in picture.groups
            if each.is_paused
        ]
        return {"reasons": list(reasons), "phase": picture.phase, "paused": paused}

    def _stacks(self) -> Answer:
        """Every handler that runs. Of a loop that is blocked they are looked at from here, where they stand still."""
        app = self._app
        try:
            return {"handlers": self._asked(lambda: running_handlers(self._groups(), app.world.clock)), "blocked": None}
        except _Blocked:
            return {"handlers": self.running(), "blocked": self._why_blocked(), "threads": stacks_of_threads()}

    def running(self) -> list[dict[str, Any]]:
        """Every handler that runs, looked at from whatever thread, also while the event loop is blocked."""
        with suppress(RuntimeError):  # threads went on, and a dict was changed while it was read
            return running_handlers(self._groups(), self._app.world.clock, self._stalls.current_step)
        return []

    def _change(self, request: Request, what: str) -> Answer:
        app, name, to = self._app, request.get("group"), request.get("to", 0)
        if not isinstance(name, str) or not isinstance(to, int) or isinstance(to, bool):
            raise _Refused(f"{what}: write {{'ask': '{what}', 'group': GROUP}}, and 'to': N to resize")
        length, by, reason = request.get("length"), request.get("by", ""), request.get("reason", "")
        if not (isinstance(length, str | None) and isinstance(by, str) and isinstance(reason, str)):
            raise _Refused("pause: write 'length': '10m', 'by': TEXT, 'reason': TEXT, or leave them out")

        def change() -> Answer:
            group = next((each for each in self._groups() if name in {each.plan.own_name, each.plan.name}), None)
            if group is None:
                running = [each.plan.own_name for each in self._groups()]
                hint = nearest(name, running) or f"; running: {', '.join(running) or 'none yet'}"
                raise _Refused(f"no group {name!r} runs here{hint}")
            before = group.plan.settings
            match what:
                case "pause":
                    app.pause(name, length=length, by=by[:BY_MAX], reason=reason[:REASON_MAX])
                case "resume":
                    app.resume(name)
                case _:
                    app.resize(name, to)
            after = group.plan.settings
            log.info(
                "control used",
                asked=what, group=name, paused=after.paused, concurrency=after.concurrency,
                **{name: text for name, text in (("by", by), ("length", length), ("reason", reason)) if text},
            )  # fmt: skip
            return {
                "group": group.plan.own_name,
                "paused_before": before.paused, "paused": after.paused, "pause": self._pause(group.plan.own_name),
                "concurrency_before": before.concurrency, "concurrency": after.concurrency,
            }  # fmt: skip

        return self._asked(change)

    def _pause(self, own_name: str) -> Answer | None:
        pause = next((each.pause for each in self._app.snapshot().groups if each.own_name == own_name), None)
        return None if pause is None else asdict(pause)

    def _decide(self, request: Request) -> Answer:
        """About one handler that runs: more time for it, or its message is sent back, or to the dead letters."""
        name, what, offset = request.get("group"), str(request.get("what")), request.get("offset")
        place = (request.get("topic"), request.get("broker"), request.get("queue"))
        by = request.get("by") or None
        if what not in DECISIONS or not isinstance(offset, int) or not isinstance(place[2], int):
            raise _Refused(
                f"decide: write {{'ask': 'decide', 'group': GROUP, 'what': one of {', '.join(DECISIONS)}, 'topic': T, "
                "'broker': B, 'queue': N, 'offset': N}, and 'by': '5m' to extend"
            )
        try:
            answer: Extend | Outcome = (
                Extend(by) if what == "extend" else DECISIONS[what](reason="an operator decided so")
            )
        except ValueError as error:
            raise _Refused(f"extend by {shorten(by)}: {error}") from None
        queue = MessageQueue(str(place[0]), str(place[1]), place[2])

        def decide() -> Answer:
            group = next((each for each in self._groups() if name in {each.plan.own_name, each.plan.name}), None)
            if group is None:
                raise _Refused(f"no group {name!r} runs here")
            if why := group.kind.pool.intervene(queue, offset, answer):
                raise _Refused(why)
            log.info("handler decided", asked=what, group=group.plan.name, queue=str(queue), offset=offset)
            return {"group": group.plan.own_name, "decided": what}

        return self._asked(decide)
