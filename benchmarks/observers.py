"""Who watches a consumer while it is measured: a scraper each second, and a dashboard that somebody has open.

The dashboard is a process of its own and its page is fetched as a browser renews it. What both cost themselves is not
the consumer's; what they make it do is. An observer that got no answer has measured nothing: `Unobserved`.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from tests.interop.processes import Nursery

ROOT = Path(__file__).parents[1]
SCRAPE_SECONDS, RENEW_SECONDS = 1.0, 5.0
FORM = "application/x-www-form-urlencoded"


class Unobserved(Exception):
    """Nobody watched: the run says nothing."""


class _Visitor:
    """Asks the same pages again and again, on a thread of its own."""

    def __init__(self, port: int, paths: list[str], seconds: float, cookie: str = "") -> None:
        self._port, self._paths, self._seconds, self._cookie = port, paths, seconds, cookie
        self._is_over = threading.Event()
        self.answers = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.wait(self._seconds):
            for path in self._paths:
                try:
                    status, _, _ = ask(self._port, "GET", path, cookie=self._cookie)
                except OSError:
                    continue  # it does not listen yet
                self.answers += status == 200

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()


def ask(port: int, method: str, path: str, body: str | None = None, cookie: str = "") -> tuple[int, str, str]:
    """Status, body and the cookie that was set."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        sent = {"content-type": FORM, "origin": f"http://127.0.0.1:{port}"} if body else {}
        connection.request(method, path, body, {**sent, **({"cookie": cookie} if cookie else {})})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), (answer.getheader("set-cookie") or "").partition(";")[0]
    finally:
        connection.close()


@contextmanager
def observed(port: int, name_server: str, group: str, nursery: Nursery, folder: Path) -> Iterator[None]:
    """Within, the consumer at this listener is scraped each second and a dashboard shows its group."""
    dashboard = _dashboard(name_server, nursery, folder)
    visitors: list[_Visitor] = []
    try:
        found, cookie = _opened(dashboard)
        visitors = [
            _Visitor(port, ["/metrics"], SCRAPE_SECONDS),
            _Visitor(found, ["/", f"/group?{urlencode({'group': group})}"], RENEW_SECONDS, cookie),
        ]
        yield
    finally:
        for each in visitors:
            each.close()
        dashboard.terminate()
        nursery.bury(dashboard, timeout_s=30)
    names = ("scraper", "dashboard")
    if idle := [name for name, each in zip(names, visitors, strict=True) if not each.answers]:
        raise Unobserved(f"no answer to the {' and the '.join(idle)}: take more messages")


def _dashboard(name_server: str, nursery: Nursery, folder: Path) -> subprocess.Popen[str]:
    words = ("dashboard", "--json", "--listen", "127.0.0.1:0", "--name-server", name_server)
    command = [sys.executable, "-m", "framework", *words]
    environment = {"PYTHONPATH": str(ROOT)}
    return nursery.start(command, cwd=folder, output=folder / "dashboard.log", environment=environment, talks=True)


def _opened(dashboard: subprocess.Popen[str]) -> tuple[int, str]:
    """Its port, and the cookie of a session."""
    assert dashboard.stdout is not None
    ready = json.loads(dashboard.stdout.readline())
    port = urlsplit(ready["url"]).port
    assert port is not None
    status, _, cookie = ask(port, "POST", "/login", urlencode({"token": ready["token"]}))
    assert status == 303, status
    return port, cookie
