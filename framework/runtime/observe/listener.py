"""ObserveListener: `observe.listen`, where metrics, probes and the snapshot are read by HTTP.

It has a thread and an event loop of its own, so that it answers while the application's is blocked, and says by whom.
What it shows it asks as commands do: `answer` is `Control`'s, or that of a parent, which asks its workers. What several
want at the same time is asked once. It knows no group and no queue.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
from collections.abc import Callable
from concurrent import futures
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from framework import __version__
from framework.mistakes import ListenerTaken, ListenerWrong
from framework.net.control.asking import Answer, Request, workers_of
from framework.net.http.messages import Handler, HttpRefused, HttpRequest, HttpResponse, Routes, as_json
from framework.net.real_world import is_of_no_address, real_world
from framework.net.task_tree import TaskTree
from framework.ports import Watchman, World
from framework.runtime.observe.metrics import families
from framework.runtime.observe.openmetrics import CONTENT_TYPE, text_of
from framework.runtime.observe.probes import Probe, verdict
from framework.runtime.observe.sums import Sums

if TYPE_CHECKING:
    from framework.settings.schema import ObserveSettings

log = structlog.get_logger()

START_SECONDS = 60.0
END_SECONDS = 10.0
PROBES: tuple[Probe, ...] = ("live", "ready", "startup")


class Mounted(Protocol):
    """Pages that somebody above brings: `observe.dashboard`. What they ask of whom is theirs to know."""

    def routes(self, world: World) -> Routes: ...

    def begin(self, port: int) -> None: ...

    def end(self) -> None: ...


class ObserveListener:
    """One per application, from `open` to `close`."""

    def __init__(
        self,
        settings: ObserveSettings,
        answer: Callable[[Request], Answer],
        watchman: Watchman,
        mounted: Mounted | None = None,
    ) -> None:
        if settings.dashboard and mounted is None:
            raise ListenerWrong(
                "observe.dashboard: `framework-app run` and `dev` have it; beside a program of your own, "
                "start `framework-app dashboard`"
            )
        self._settings, self._answer, self._watchman = settings, answer, watchman
        self._mounted = mounted if settings.dashboard else None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_over: asyncio.Event | None = None
        self._asked: dict[str, asyncio.Task[Answer]] = {}
        self._sums = Sums()
        self._world, self._tree = real_world(), TaskTree()
        self._ended: futures.Future[None] = futures.Future()

    def open(self) -> None:
        """Listen. Raises ListenerWrong where that cannot be."""
        started: futures.Future[int] = futures.Future()
        self._watchman.attend(lambda: asyncio.run(self._serve(started)), "observe")
        try:
            port = started.result(START_SECONDS)
        except ImportError as error:
            raise ListenerWrong("observe.listen needs the package h11: pip install 'framework-app[observe]'") from error
        except TimeoutError as error:  # it is an OSError, too, and says nothing about the address
            why = f"not open within {START_SECONDS:g} s; is this machine overloaded?"
            raise ListenerWrong(f"observe.listen {self._settings.listen!r}: {why}") from error
        except OSError as error:
            kind: type[ListenerWrong] = ListenerWrong
            why = error.strerror or str(error)
            if error.errno == errno.EADDRINUSE:
                kind, why = ListenerTaken, "another process listens there; give each application its own"
            elif is_of_no_address(error):
                why = "no address of this machine"
            raise kind(f"observe.listen {self._settings.listen!r}: {why}") from error
        paths = [path for _, path in self._routes()]
        log.info("listener opened", port=port, paths=paths, dashboard=self._mounted is not None)

    def close(self) -> None:
        if self._loop is None or self._is_over is None:
            return
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._is_over.set)
        with suppress(futures.TimeoutError):
            self._ended.result(END_SECONDS)

    # On its thread

    async def _serve(self, started: futures.Future[int]) -> None:
        self._loop, self._is_over = asyncio.get_running_loop(), asyncio.Event()
        try:
            from framework.net.http.server import HttpServer  # h11 comes with it

            host, _, port = self._settings.listen.rpartition(":")
            routes = {**(self._mounted.routes(self._world) if self._mounted else {}), **self._routes()}
            server = HttpServer(self._world, routes, host=host.strip("[]"), port=int(port), hosts=self._settings.hosts)
            found = await server.start()
            if self._mounted:
                self._mounted.begin(found)
        except BaseException as error:  # noqa: BLE001 - border: it is the opener's, on the other thread
            self._ended.set_result(None)
            started.set_exception(error)
            return
        started.set_result(found)
        try:
            await self._is_over.wait()
        finally:
            if self._mounted:
                self._mounted.end()
            await server.close()
            await self._tree.close()
            self._ended.set_result(None)

    def _routes(self) -> dict[tuple[str, str], Handler]:
        """Only what may be read: what nobody may read is not there."""
        settings = self._settings
        pages: dict[str, dict[str, Handler]] = {
            "metrics": {"/metrics": self._metrics},
            "probes": {f"/{probe}": self._probe(probe) for probe in PROBES},
            "snapshot": {"/snapshot": self._snapshot},
        }
        found: dict[tuple[str, str], Handler] = {}
        for what, handlers in pages.items():
            for path, handler in handlers.items():
                if what in settings.public or (settings.is_loopback and not settings.token):
                    found["GET", path] = handler
                elif settings.token:
                    found["GET", path] = self._guarded(handler)
        return found

    def _guarded(self, handler: Handler) -> Handler:
        wanted = f"Bearer {self._settings.token.reveal()}".encode()

        async def checked(request: HttpRequest) -> HttpResponse:
            given = request.headers.get("authorization", "").encode("latin-1", "replace")
            if not hmac.compare_digest(wanted, given):
                raise HttpRefused(401, "write the header authorization: Bearer TOKEN", {"www-authenticate": "Bearer"})
            return await handler(request)

        return checked

    async def _ask(self, request: Request) -> Answer:
        """The answer to this; while it is waited for, others wait for the same."""
        key = repr(request)
        task = self._asked.get(key)
        if task is None:
            task = self._asked[key] = self._tree.start(self._run(request), name="observe")
            task.add_done_callback(lambda _: self._asked.pop(key, None))
        return await asyncio.shield(task)

    async def _run(self, request: Request) -> Answer:
        return await self._world.workers.run(lambda: self._answer(request))

    def _probe(self, probe: Probe) -> Handler:
        async def answered(_: HttpRequest) -> HttpResponse:
            workers = workers_of(await self._ask({"ask": "health", "ready": probe == "ready"}))
            found = verdict(probe, workers)
            body = {"probe": probe, "ok": found.is_well, "reasons": list(found.reasons), "processes": len(workers)}
            return as_json(body, 200 if found.is_well else 503)

        return answered

    async def _metrics(self, request: HttpRequest) -> HttpResponse:
        by_worker = request.query.get("by") == "worker"
        workers = workers_of(await self._ask({"ask": "snapshot"}))
        found = families(workers, __version__, by_worker=by_worker, sums=self._sums)
        return HttpResponse(200, {"content-type": CONTENT_TYPE}, text_of(found).encode("utf-8", "replace"))

    async def _snapshot(self, _: HttpRequest) -> HttpResponse:
        found: list[Any] = workers_of(await self._ask({"ask": "snapshot"}))
        is_whole = all("snapshot" in worker for worker in found)
        return as_json({"version": __version__, "workers": found}, 200 if is_whole else 503)
