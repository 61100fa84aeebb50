"""Desk: what every page and every act works with, and what a page is before it becomes HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from framework.admin.cluster import Admin
from framework.admin.moments import Moment, moment
from framework.cli.dashboard.exchanges import number
from framework.cli.dashboard.guard import Session
from framework.cli.dashboard.jobs import Jobs
from framework.cli.dashboard.watching import GroupLook, Look, Watching
from framework.net.http.messages import HttpRefused, HttpRequest


@dataclass(frozen=True, slots=True)
class BrowserPage:
    """A template and what it shows."""

    template: str
    title: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    is_live: bool = False
    """Its parts are fetched anew every few seconds, unless the reader stops that."""


@dataclass(slots=True)
class DashboardDesk:
    """One a dashboard."""

    watching: Watching
    jobs: Jobs
    now_ms: Callable[[], int]
    writes: bool
    audit: Callable[..., None]
    """`audit(what, **facts)`: a line for whoever keeps the log."""

    @contextmanager
    def admin(self) -> Iterator[Admin]:
        """Connections of this page's own: one page at a time may use them."""
        with Admin(self.watching.options, memory=self.watching.memory) as admin:
            yield admin


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of somebody who may see."""

    desk: DashboardDesk
    request: HttpRequest
    session: Session

    @property
    def look(self) -> Look:
        return self.desk.watching.latest()

    def text(self, name: str) -> str:
        """A parameter of the address, without space around it."""
        return self.request.query.get(name, "").strip()[:1000]

    def number(self, name: str, default: int, most: int) -> int:
        found = number(self.text(name))
        return default if found is None else min(found, most)

    def moment(self, text: str) -> Moment:
        """Where to begin. HttpRefused: 400 with the forms that there are."""
        try:
            return moment(text, self.desk.now_ms())
        except ValueError as error:
            raise HttpRefused(400, str(error)) from None

    def audit(self, what: str, **facts: object) -> None:
        self.desk.audit(f"dashboard {what}", session=self.session.short, address=self.request.peer, **facts)


def group_of(visit: Visit) -> GroupLook:
    """The group that the address names. HttpRefused: 404 with what there is."""
    name = visit.text("group")
    look = visit.look
    found = look.groups.get(name)
    if found is None:
        if look.failure:
            raise HttpRefused(502, f"the cluster cannot be looked at: {look.failure}")
        more = f"; {look.left_out} groups are not looked at, since there are too many" if look.left_out else ""
        known = ", ".join(list(look.groups)[:20]) or "none"
        raise HttpRefused(404, f"no broker knows a group {name!r}; there are: {known}{more}")
    return found
