"""`observe.dashboard`: an application's own dashboard, where its metrics are read."""

from __future__ import annotations

import asyncio
import http.client
import json
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlencode

import pytest

from framework import App, Message, consumer
from framework.hooks.host import PluginHost
from framework.mistakes import ListenerWrong
from framework.settings.schema import AppSettings, ObserveSettings
from tests.cli.processes import command
from tests.patience import wait_until
from tests.ports import free_port
from tests.reading.threads import thread_box

TOKEN = "a-token-of-the-test-alone"
SHOP = """
from framework import Message, consumer

@consumer("orders", "billing")
async def bill(order: Message) -> None: ...
"""


class Browser:
    """One that keeps its cookie and names its origin."""

    def __init__(self, port: int) -> None:
        self._port, self._cookie = port, ""

    def ask(self, method: str, path: str, **fields: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        sent = {"cookie": self._cookie, "origin": f"http://127.0.0.1:{self._port}"}
        sent |= {"content-type": "application/x-www-form-urlencoded"} if fields else {}
        connection.request(method, path, urlencode(fields) or None, sent)
        answer = connection.getresponse()
        if given := answer.getheader("set-cookie"):
            self._cookie = given.partition(";")[0]
        page = answer.read().decode()
        connection.close()
        return answer.status, page


@pytest.mark.parametrize("workers", [1, 2])
def test_an_application_has_its_dashboard_beside_its_metrics(tmp_path: Path, workers: int) -> None:
    """Alone, or as the parent of workers; the token opens it, probes stay open, and it only reads."""
    port = free_port()
    (tmp_path / "shop.py").write_text(SHOP)
    with ExitStack() as enter, thread_box() as box:
        box.send("orders", [Message("orders", b"x")], queue=0)
        settings = {
            "app": {"name": "shop", "handlers": ["shop"]},
            "cluster": {"name_servers": [box.address]},
            "consumers": {"billing": {"start": "first"}},
            "observe": {
                "listen": f"127.0.0.1:{port}", "dashboard": True, "token": TOKEN, "public": ["metrics", "probes"],
            },
        }  # fmt: skip
        (tmp_path / "framework-app.yaml").write_text(json.dumps(settings))
        runtime = enter.enter_context(TemporaryDirectory(prefix="fa-"))  # a socket's path has 100 bytes at most
        environment = {"XDG_RUNTIME_DIR": runtime, "TMPDIR": runtime}
        with command("run", "--workers", str(workers), folder=tmp_path, environment=environment) as running:
            running.until("ready")
            browser = Browser(port)
            stranger = {
                path: browser.ask("GET", path)[0] for path in ("/", "/group?group=billing", "/metrics", "/live")
            }
            static, wrong = (
                browser.ask("GET", "/static/dashboard.js")[0],
                browser.ask("POST", "/login", token="guess")[0],
            )
            opened, _ = browser.ask("POST", "/login", token=TOKEN)
            shown: dict[str, tuple[int, str]] = {}

            def shows(path: str, text: str) -> bool:
                shown[path] = browser.ask("GET", path)
                return shown[path][0] == 200 and text in shown[path][1]

            for path, text in (("/group?group=billing", ""), ("/applications", "shop"), ("/", "")):
                wait_until(partial(shows, path, text), path, pause_s=0.2)  # it looks every five seconds
            act, _ = browser.ask("POST", "/act/pause", group="billing")
            assert 0 == running.end()

    assert {"/": 401, "/group?group=billing": 401, "/metrics": 200, "/live": 200} == stranger
    assert (401, 401, 303) == (static, wrong, opened)
    assert box.address in shown["/"][1]
    assert "read-only" in shown["/"][1]
    assert act in {403, 404}


@pytest.mark.parametrize(
    "observe",
    [
        {"dashboard": True},
        {"dashboard": True, "listen": "127.0.0.1:9464"},
        {"dashboard": True, "listen": "127.0.0.1:9464", "token": "short"},
        {"dashboard": True, "token": TOKEN},
        {"allow_writes": True, "listen": "127.0.0.1:9464", "token": TOKEN},
    ],
)
def test_a_dashboard_that_nothing_locks_is_refused(observe: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="dashboard"):
        ObserveSettings.model_validate(observe)


def test_a_program_with_an_application_in_it_is_told_to_start_the_dashboard_beside_it() -> None:
    @consumer("orders", "billing")
    async def bill(message: Message) -> None: ...

    observe = {"listen": f"127.0.0.1:{free_port()}", "dashboard": True, "token": TOKEN}
    app = App(AppSettings.model_validate({"observe": observe}), [bill], plugins=PluginHost())

    with pytest.raises(ListenerWrong, match="start `framework-app dashboard`"):
        asyncio.run(app.run())
