"""A dashboard without a socket: requests go to its site as the server would hand them over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from framework.cli.dashboard.desk import DashboardDesk
from framework.cli.dashboard.guard import Guard
from framework.cli.dashboard.jobs import Jobs
from framework.cli.dashboard.pages import Pages
from framework.cli.dashboard.site import Site
from framework.cli.dashboard.watching import Watching
from framework.client.options import ClusterOptions
from framework.net.http.messages import HttpRequest, HttpResponse
from framework.net.real_world import RealChance, RealWatchman

TOKEN = "token-" * 8
HOST = "127.0.0.1:9465"
NOW_MS = 1_800_000_000_000


@dataclass
class Visitor:
    """One browser: it keeps its cookie and names its origin, unless a test says otherwise."""

    site: Site
    cookie: str = ""
    audits: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    def ask(
        self, method: str, address: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> HttpResponse:
        path, _, query = address.partition("?")
        sent = {"host": HOST, **({"cookie": self.cookie} if self.cookie else {}), **(headers or {})}
        request = HttpRequest(method, path, dict(parse_qsl(query)), sent, body, "127.0.0.1")
        return self.site.answer(request)

    def get(self, address: str) -> str:
        answer = self.ask("GET", address)
        assert 200 == answer.status, text(answer)
        return text(answer)

    def post(self, address: str, headers: Mapping[str, str] | None = None, **fields: object) -> HttpResponse:
        ours = {"content-type": "application/x-www-form-urlencoded", "origin": f"http://{HOST}", **(headers or {})}
        return self.ask("POST", address, urlencode({"csrf": self.csrf, **fields}).encode(), ours)

    @property
    def csrf(self) -> str:
        guard = self.site.guard
        return next((each.csrf for each in guard._sessions.values() if each.id in self.cookie), "")

    def open(self, token: str = TOKEN) -> HttpResponse:
        answer = self.post("/login", token=token)
        for each in answer.cookies:
            self.cookie = each.partition(";")[0]
        return answer


def text(answer: HttpResponse) -> str:
    assert isinstance(answer.body, bytes)
    return answer.body.decode()


def visitor(
    name_server: str,
    *,
    writes: bool = False,
    sockets: Callable[[], list[Path]] = list,
    now_ms: Callable[[], int] = lambda: NOW_MS,
) -> Visitor:
    """Nothing is looked at until `look`."""
    watching = Watching(ClusterOptions(name_servers=(name_server,)), sockets, now_ms)
    audits: list[tuple[str, dict[str, object]]] = []

    def audit(what: str, **facts: object) -> None:
        audits.append((what, facts))

    desk = DashboardDesk(watching, Jobs(RealWatchman().attend, now_ms), now_ms, writes, audit)
    guard = Guard(TOKEN, 9465, now_ms, RealChance().token)
    return Visitor(Site(desk, guard, Pages(), lambda: "nonce"), audits=audits)


def look(who: Visitor) -> None:
    """One look at the cluster, kept as the last one."""
    watching = who.site.desk.watching
    watching._latest = watching.look()
