"""Serving: a dashboard behind a port, with its threads, from start to stop."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from framework.cli import changes
from framework.cli.dashboard.desk import DashboardDesk
from framework.cli.dashboard.guard import TOKEN_BYTES, Guard
from framework.cli.dashboard.jobs import Jobs
from framework.cli.dashboard.watching import Watching
from framework.client.options import ClusterOptions
from framework.mistakes import ListenerWrong, UsageWrong
from framework.net.control.places import is_heard, sockets
from framework.net.http.messages import HttpRequest, HttpResponse, Routes
from framework.ports import Watchman, World

if TYPE_CHECKING:
    from framework.settings.schema import AppSettings

DEFAULT_PORT = 9465


@dataclass(frozen=True, slots=True)
class Opened:
    """Where it is and how somebody gets in. The token stands behind `#`: no server, log or proxy is told that part."""

    url: str
    token: str
    close: Callable[[], Awaitable[None]]

    @property
    def login(self) -> str:
        """The address that opens it at once."""
        return f"{self.url}#{self.token}"


@dataclass(frozen=True, slots=True)
class DashboardOptions:
    """What its user decides."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    token: str = ""
    """Empty: one is made."""
    writes: bool = False
    names: Sequence[str] = ()
    """Host names beside the loopback's that browsers may call it by."""


def checked(options: DashboardOptions) -> DashboardOptions:
    """ConfigurationError where it would stand open."""
    from framework.settings.fields import TOKEN_LENGTH_MIN, is_loopback

    if options.token and len(options.token) < TOKEN_LENGTH_MIN:
        raise UsageWrong(
            f"dashboard: the token has {len(options.token)} characters; give it {TOKEN_LENGTH_MIN} or more, "
            "or none, and one is made"
        )
    if not is_loopback(options.host) and not options.token:
        raise UsageWrong(
            f"dashboard: {options.host} can be reached from elsewhere; "
            "give it a token (FRAMEWORK_APP_DASHBOARD_TOKEN), or listen at 127.0.0.1"
        )
    return options


class Dashboard:
    """`open` on an event loop; pages are made on threads of the world's."""

    def __init__(
        self,
        world: World,
        options: DashboardOptions,
        cluster: ClusterOptions,
        sockets: Callable[[], list[Path]],
        *,
        follows: bool = False,
    ) -> None:
        self._world, self._options = world, checked(options)
        watchman = world.watchman
        assert watchman is not None, "only a simulation has no threads, and it serves nobody"
        self._watchman: Watchman = watchman
        clock = world.clock
        self._watching = Watching(cluster, sockets, clock.now_ms, follows=follows)
        self._jobs = Jobs(watchman.attend, clock.now_ms)
        token = options.token or world.chance.token(TOKEN_BYTES).hex()
        self._guard = Guard(token, options.port, clock.now_ms, world.chance.token)

    async def open(self) -> Opened:
        """Listen, and look for the first time. OSError where the port is taken."""
        from framework.net.http.server import HttpServer

        options = self._options
        self._server = HttpServer(self._world, self.routes(), host=options.host, port=options.port, hosts=options.names)
        port = await self._server.start()
        self.begin(port)
        host = f"[{options.host}]" if ":" in options.host else options.host
        return Opened(f"http://{host}:{port}/", self._guard.token, self.close)

    async def close(self) -> None:
        """Listen no more; jobs stop after what they are at."""
        self.end()
        await self._server.close()

    # For a server that has other pages, too

    def routes(self) -> Routes:
        """Whatever no other page of the server answers."""
        from framework.cli.dashboard.pages import Pages
        from framework.cli.dashboard.site import Site

        chance, clock = self._world.chance, self._world.clock
        desk = DashboardDesk(self._watching, self._jobs, clock.now_ms, self._options.writes, changes.audit)
        site = Site(desk, self._guard, Pages(), lambda: chance.token(16).hex())

        async def answer(request: HttpRequest) -> HttpResponse:
            return await self._world.workers.run(lambda: site.answer(request))

        return {(method, "/*"): answer for method in ("GET", "POST")}

    def begin(self, port: int) -> None:
        """The server listens there: look for the first time."""
        self._guard.port = port
        self._watchman.attend(self._watching.run, "dashboard")

    def end(self) -> None:
        self._watching.close()
        self._jobs.stop()


class MountedDashboard:
    """`observe.dashboard`: the dashboard at the address where an application's metrics are read; one per listener, as
    `runtime.observe.listener.Mounted`.

    It is on the listener's thread and on threads of its own, not on the application's event loop. In a parent of
    workers it is the parent's. It sees the cluster of this application, the application itself, and others of the same
    user.
    """

    def __init__(self, settings: AppSettings) -> None:
        self._settings = settings
        self._dashboard: Dashboard | None = None

    def routes(self, world: World) -> Routes:
        from framework.runtime.plans.connect import cluster_options

        observe = self._settings.observe
        chosen = DashboardOptions(token=observe.token.reveal(), writes=observe.allow_writes)
        cluster = cluster_options(self._settings, client_id="")
        self._dashboard = Dashboard(world, chosen, cluster, self._sockets, follows=True)
        try:
            return self._dashboard.routes()
        except ImportError as error:
            raise ListenerWrong(
                "observe.dashboard needs the package jinja2: pip install 'framework-app[dashboard]'"
            ) from error

    def begin(self, port: int) -> None:
        assert self._dashboard is not None, "its routes are asked for first"
        self._dashboard.begin(port)

    def end(self) -> None:
        if self._dashboard is not None:
            self._dashboard.end()

    def _sockets(self) -> list[Path]:
        """That of the application itself first."""
        own = self._settings.app.control
        found = [Path(own).expanduser()] if own else []
        return [*found, *(each for each in sockets(os.environ) if each not in found and is_heard(each))]
