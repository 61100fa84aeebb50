"""Site: from a request to an answer: who asks, which page, which act. Blocks; several threads may be in it at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

import structlog

from framework.admin.groups import reason_of
from framework.cli.dashboard import acts
from framework.cli.dashboard.desk import BrowserPage, DashboardDesk, Visit
from framework.cli.dashboard.exchanges import form, see
from framework.cli.dashboard.guard import Guard, Session, headers
from framework.cli.dashboard.pages import Pages
from framework.cli.dashboard.plans import shown
from framework.cli.dashboard.views import cluster, groups, letters, messages, overview
from framework.errors import FrameworkError
from framework.net.http.messages import HttpRefused, HttpRequest, HttpResponse

log = structlog.get_logger()

Show = Callable[[Visit], BrowserPage | HttpResponse]
PAGES: Mapping[str, Show] = {
    "/": overview.page,
    "/group": groups.page,
    "/queues": groups.queue_map,
    "/dead-letters": letters.page,
    "/dead-letter": letters.one,
    "/messages": messages.search,
    "/message": messages.life,
    "/stored": messages.stored,
    "/tail": messages.tail,
    "/topics": cluster.topics,
    "/topic": cluster.topic,
    "/brokers": cluster.brokers,
    "/applications": cluster.applications,
    "/doctor": cluster.findings,
    "/jobs": cluster.jobs,
    "/job": cluster.job,
}
NAVIGATION = (
    ("o", "/", "Overview"),
    ("m", "/messages", "Messages"),
    ("t", "/tail", "Tail"),
    ("p", "/topics", "Topics"),
    ("b", "/brokers", "Brokers"),
    ("a", "/applications", "Applications"),
    ("d", "/doctor", "Doctor"),
    ("j", "/jobs", "Jobs"),
)
REVEALS = frozenset({"/stored", "/dead-letter"})
"""Pages whose body is shown to a form that asks for it."""
DONE = {
    "pause": "paused", "resume": "goes on", "resize": "resized", "reset": "reset", "drop": "passed over",
    "extend": "the handler has more time", "send_back": "sent back for a retry", "bury": "sent to the dead letters",
}  # fmt: skip
LOGIN, LOGOUT = "/login", "/logout"


@dataclass(slots=True)
class Site:
    """One a dashboard."""

    desk: DashboardDesk
    guard: Guard
    pages: Pages
    nonce: Callable[[], str]

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Whatever comes, an answer with the headers that keep a browser in bounds."""
        nonce = self.nonce()
        try:
            found = self._answered(request, nonce)
        except HttpRefused as error:
            found = self._error(request, nonce, error)
        except FrameworkError as error:
            found = self._error(request, nonce, HttpRefused(502, reason_of(error)))
        except Exception:  # border: the browser learns nothing of it
            log.exception("dashboard page failed", path=request.path)
            found = self._error(request, nonce, HttpRefused(500, "this page could not be made; the log says why"))
        return replace(found, headers={**headers(nonce), **found.headers})

    def _answered(self, request: HttpRequest, nonce: str) -> HttpResponse:
        if request.method == "POST" and request.path == LOGIN:
            return self._login(request, nonce)
        session = self.guard.session(request)
        if session is None:
            return self._ask_for_token(nonce, 401, "", _inside(request.path, request.query))
        if (static := self.pages.static(request.path)) is not None:
            return static
        visit = Visit(self.desk, request, session)
        if request.method == "POST":
            return self._post(visit, nonce)
        if request.path in acts.PLANS:
            return self._page(visit, nonce, shown(acts.PLANS[request.path](visit)))
        show = PAGES.get(request.path)
        if show is None:
            raise HttpRefused(404, "there is no such page")
        found = show(visit)
        return found if isinstance(found, HttpResponse) else self._page(visit, nonce, found)

    # Who

    def _login(self, request: HttpRequest, nonce: str) -> HttpResponse:
        self.guard.check_from_us(request)
        fields = form(request)
        path, _, query = fields.get("to", "").partition("?")
        to = _inside(path, dict(parse_qsl(query)))
        session = self.guard.open(fields.get("token", ""))
        if session is None:
            if reason := self.guard.said_of_wrong():
                self.desk.audit("dashboard refused", address=request.peer, reason=reason)
            return self._ask_for_token(
                nonce, 401, "That is not the token. It is printed where the dashboard was started.", to
            )
        self.desk.audit("dashboard opened", session=session.short, address=request.peer)
        return replace(see(to), cookies=(self.guard.set_cookie(session),))

    def _ask_for_token(self, nonce: str, status: int, said: str, to: str = "/") -> HttpResponse:
        return self.pages.render("login.html", status, nonce=nonce, said=said, to=to)

    # Posts

    def _post(self, visit: Visit, nonce: str) -> HttpResponse:
        request = visit.request
        self.guard.check_allowed(request, visit.session)
        fields = form(request)
        if request.path == LOGOUT:
            self.guard.close(visit.session)
            return replace(see("/"), cookies=(self.guard.set_cookie(None),))
        if request.path in REVEALS:
            return self._reveal(replace(visit, request=replace(request, query=fields)), nonce)
        act = acts.ACTS.get(request.path) if self.desk.writes else None
        if act is None:
            why = "" if self.desk.writes else ", or this dashboard may only read: start it with --allow-writes"
            raise HttpRefused(404, f"nothing can be done at this address{why}")
        return act(visit, fields)

    def _reveal(self, visit: Visit, nonce: str) -> HttpResponse:
        """A body, to whoever asks for it by a form: a link, or a page left open, shows none."""
        show = messages.stored if visit.request.path == "/stored" else letters.one
        found = show(visit, with_body=True)
        visit.audit("body shown", place=visit.text("place"))
        return self._page(visit, nonce, found)

    # Out

    def _page(self, visit: Visit, nonce: str, page: BrowserPage) -> HttpResponse:
        done = visit.text("done")
        return self._render(visit.session, nonce, page, path=visit.request.path, done=DONE.get(done, ""))

    def _error(self, request: HttpRequest, nonce: str, error: HttpRefused) -> HttpResponse:
        session = self.guard.session(request)
        if session is None:
            return self._ask_for_token(nonce, error.status, error.reason)
        page = BrowserPage(
            "error.html", "Not shown" if request.method == "GET" else "Not done", {"why": error.reason}, error.status
        )
        return self._render(session, nonce, page, path=request.path, done="")

    def _render(self, session: Session, nonce: str, page: BrowserPage, *, path: str, done: str) -> HttpResponse:
        common: dict[str, Any] = {
            "title": page.title,
            "live": page.is_live,
            "nonce": nonce,
            "csrf": session.csrf,
            "writes": self.desk.writes,
            "cluster": ", ".join(self.desk.watching.options.name_servers),
            "now_ms": self.desk.now_ms(),
            "navigation": NAVIGATION,
            "path": path,
            "done": done,
            "look": self.desk.watching.latest(),
        }
        return self.pages.render(page.template, page.status, **common, **page.facts)


def _inside(path: str, query: Mapping[str, str]) -> str:
    """The address of one of our pages, where somebody wanted to go; the overview, where it is none."""
    if path not in PAGES and path not in acts.PLANS:
        return "/"
    return f"{path}?{urlencode(query, errors='replace')}" if query else path
