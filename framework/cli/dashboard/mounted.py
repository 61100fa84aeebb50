"""MountedDashboard: `observe.dashboard`, the dashboard at the address where an application's metrics are read.

It is on the listener's thread and on threads of its own, not on the application's event loop. In a parent of workers it
is the parent's. It sees the cluster of this application, the application itself, and others of the same user.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from framework.cli.dashboard.serving import Dashboard, DashboardOptions
from framework.mistakes import ListenerWrong
from framework.net.control.places import is_heard, sockets

if TYPE_CHECKING:
    from framework.net.http.messages import Routes
    from framework.ports import World
    from framework.settings.schema import AppSettings


class MountedDashboard:
    """One per listener, as `runtime.observe.listener.Mounted`."""

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
