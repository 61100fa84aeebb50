"""The control sockets of `run` and `dev`: where they lie, and how a parent answers for its workers.

A parent has no application. It hands each request to the sockets of its workers, which lie beside its own, and names
those that do not answer.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from framework import __version__
from framework.cli import options
from framework.mistakes import ListenerWrong
from framework.net.control.asking import Answer, NobodyListens, Request, ask_all
from framework.net.control.places import default_place
from framework.net.control.serving import ControlSocket

if TYPE_CHECKING:
    from framework.cli.processes.children import Children
    from framework.runtime.observe.listener import Mounted, ObserveListener
    from framework.settings.schema import AppSettings, ObserveSettings

AUTO = "auto"
WORKER_SECONDS = 4.0
"""A worker's own thread gives its event loop three, and then says that it is blocked."""
log = structlog.get_logger()


def controlled(settings: AppSettings, arguments: argparse.Namespace) -> AppSettings:
    """The settings with the path of this very process in place of `auto`."""
    if arguments.child:
        place = arguments.control and f"{arguments.control}.{arguments.child_number or 0}"
    else:
        place = arguments.control = arguments.control if arguments.control is not None else _place(settings)
    return _with_control(settings, place or "")


def _with_control(settings: AppSettings, path: str) -> AppSettings:
    return settings.model_copy(update={"app": settings.app.model_copy(update={"control": path})})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a parent listens, and what it says of itself."""

    path: str
    """Empty for nowhere."""
    about: Mapping[str, str]
    observe: ObserveSettings | None = None
    """Where metrics and probes of all workers are read; None for nowhere."""
    mounted: Mounted | None = None


NOWHERE = Place("", {})


def of_parent(arguments: argparse.Namespace) -> Place:
    loaded = options.loaded_or_usual(arguments)
    settings, file = loaded.settings, loaded.file
    about = {"name": settings.app.name, "config": str(file.absolute()) if file else ""}
    path = _place(settings)
    place = Place(path, about, settings.observe if settings.observe.listen else None, mounted(settings, path))
    arguments.control = place.path
    if place.observe is not None and not place.path:
        raise ListenerWrong("observe.listen: a parent asks its workers at their control sockets; set app.control: auto")
    return place


def mounted(settings: AppSettings, path: str) -> Mounted | None:
    """The dashboard of an application whose control socket is this, where its settings ask for one."""
    if not settings.observe.dashboard:
        return None
    from framework.cli.dashboard.serving import MountedDashboard

    return MountedDashboard(_with_control(settings, path))


def _place(settings: AppSettings) -> str:
    if settings.app.control != AUTO:
        return settings.app.control
    try:
        return str(default_place(settings.app.name, os.environ))
    except OSError as error:
        log.warning("control socket not opened", path=AUTO, reason=str(error))
        return ""


class WorkersControl:
    """The parent's side, on threads of its socket: it looks at the children and changes nothing of them."""

    def __init__(self, children: Children, workers: int, place: Place, is_stopping: Callable[[], bool]) -> None:
        from framework.net.real_world import RealWatchman

        self._children, self._workers, self._about = children, workers, place.about
        self._is_stopping = is_stopping
        self._path = Path(place.path).expanduser()
        watchman = RealWatchman()
        self._socket = ControlSocket(self._path, self.answer, watchman) if place.path else None
        self._listener: ObserveListener | None = None
        if place.observe is not None:
            from framework.runtime.observe.listener import ObserveListener

            self._listener = ObserveListener(place.observe, self.answer, watchman, place.mounted)

    def open(self) -> None:
        if self._socket is not None:
            self._socket.open()
        if self._listener is not None:
            self._listener.open()

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        if self._socket is not None:
            self._socket.close()

    def answer(self, request: Request) -> Answer:
        """What each worker answers, by its number; one that cannot has a reason in its place."""
        running = {child.worker: child.number for child in list(self._children.all) if child.code is None}
        paths = {worker: Path(f"{self._path}.{worker}") for worker in running}
        is_stopping, found = self._is_stopping(), list[Answer]()
        for worker, answer in ask_all(paths, request, WORKER_SECONDS).items():
            who: Answer = {"worker": worker, "process": running[worker]}
            if isinstance(answer, NobodyListens) and is_stopping:
                found.append({**who, "error": "it is stopping, and does not listen any more", "is_stopping": True})
            elif isinstance(answer, NobodyListens):
                found.append({**who, "error": "it is starting, and does not listen yet", "is_starting": True})
            elif isinstance(answer, Exception):
                found.append({**who, "error": str(answer)})
            else:
                found.append({**answer, **who})
        missing = sorted(set(range(self._workers)) - running.keys())[: max(self._workers - len(running), 0)]
        found += [
            {"worker": worker, "process": None, "error": "it has ended, and is started again", "is_starting": True}
            for worker in missing
            if not is_stopping
        ]
        return {
            **self._about,
            "version": __version__,
            "process": os.getpid(),
            "workers": sorted(found, key=lambda each: int(each["worker"])),
        }
