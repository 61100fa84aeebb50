"""Pages that embed the framework, run as they stand: lifespans, Django's command, a plugin and its test."""

from __future__ import annotations

import ast
import asyncio
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import pytest

from framework import App, Producer
from tests.bare_pytest import BARE
from tests.cli.processes import Command
from tests.docs.blocks import DOCS, blocks, write_files
from tests.lacking import lacking
from tests.patience import soon
from tests.reading.threads import ThreadBox, thread_box

ROOT = Path(__file__).parents[2]
MODELS = """
from django.db import models


class Invoice(models.Model):
    number = models.CharField(max_length=20, unique=True)
    cents = models.IntegerField()
"""
SETTINGS = """
SECRET_KEY = "only a test"
INSTALLED_APPS = ["shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite3"}}
USE_TZ = True
"""
PREPARED = """
import django
django.setup()
from django.core.management import call_command
from django.db import connection
from shop.models import Invoice
with connection.schema_editor() as editor:
    editor.create_model(Invoice)
"""
COUNTED = """
import django
django.setup()
from shop.models import Invoice
print(sorted(Invoice.objects.values_list("number", "cents")))
"""


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    write_files(DOCS / "howto" / request.param, tmp_path)
    return tmp_path


def environment(box: ThreadBox, **more: str) -> dict[str, str]:
    names = {"FRAMEWORK_APP__CLUSTER__NAME_SERVERS": f'["{box.address}"]', "PYTHONPATH": "."}
    return {**os.environ, **names, "FRAMEWORK_APP__CONSUMERS__BILLING__START": "first", **more}


# FastAPI, Starlette, Litestar


class Server:
    """A server of one application, as ASGI says: its lifespan, and one request after the other."""

    def __init__(self, application: Callable[..., Awaitable[None]]) -> None:
        self._application = application
        self._state: dict[str, Any] = {}
        self._heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": self._state}
        self._life = asyncio.ensure_future(self._application(scope, self._heard.get, self._said.put))
        await self._heard.put({"type": "lifespan.startup"})
        assert "lifespan.startup.complete" == (await self._said.get())["type"]
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._heard.put({"type": "lifespan.shutdown"})
        assert "lifespan.shutdown.complete" == (await self._said.get())["type"]
        await self._life

    async def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        said: list[dict[str, Any]] = []

        async def hear() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def say(message: dict[str, Any]) -> None:
            said.append(message)

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": path,
            "raw_path": path.encode(), "query_string": b"", "root_path": "", "scheme": "http", "server": ("box", 80),
            "headers": [(b"content-type", b"application/json")], "state": dict(self._state),
        }  # fmt: skip
        await self._application(scope, hear, say)
        content = b"".join(each.get("body", b"") for each in said if each["type"] == "http.response.body")
        return said[0]["status"], content


@pytest.mark.parametrize("library", ["fastapi", "starlette", "litestar"])
@pytest.mark.parametrize("folder", ["web.md"], indirect=True)
def test_a_web_application_consumes_as_long_as_it_serves(
    folder: Path, library: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if find_spec(library) is None:
        lacking(f"{library} is missing: make setup installs it")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))

    async def serve(web: Callable[..., Awaitable[None]]) -> None:
        async with Server(web) as server:
            assert 200 == (await server.request("GET", "/ready"))[0]
            status, answer = await server.request("POST", "/orders", b'{"number": 17}')
            assert 200 == status
            assert json.loads(answer)["message_id"]
            assert 200 == (await server.request("GET", "/live"))[0]
            shown = ""
            while "billed 17\n" not in shown:
                await asyncio.sleep(0.01)
                shown += capsys.readouterr().out
        assert 200 != (await server.request("GET", "/ready"))[0], "it has stopped"

    with thread_box() as box:
        for name, value in environment(box).items():
            monkeypatch.setenv(name, value)
        try:
            asyncio.run(soon(serve(importlib.import_module(f"with_{library}").web), "an order that is billed"))
        finally:
            for name in (f"with_{library}", "orders"):
                sys.modules.pop(name, None)


@pytest.mark.parametrize("folder", ["web.md"], indirect=True)
def test_an_application_is_started_and_stopped_by_hand(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = [block for block in blocks(DOCS / "howto" / "web.md", "python") if not block.name]
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))

    async def by_hand() -> dict[str, Any]:
        names: dict[str, Any] = {"asyncio": asyncio, "Producer": Producer, "app": App.from_yaml("framework-app.yaml")}
        await eval(compile(block.text, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        return names

    with thread_box() as box:
        for name, value in environment(box).items():
            monkeypatch.setenv(name, value)
        try:
            names = asyncio.run(soon(by_hand(), "a start and a stop"))
        finally:
            sys.modules.pop("orders", None)
    assert (True, 0) == (names["running"].done(), names["running"].result().abandoned)


# Django


@pytest.mark.parametrize("folder", ["web.md"], indirect=True)
@pytest.mark.parametrize("way", ["manage", "run"])
def test_handlers_use_django_s_models(folder: Path, way: str) -> None:
    if find_spec("django") is None:
        lacking("django is missing: make setup installs it")
    for name, text in {"shop/models.py": MODELS, "settings.py": SETTINGS, "shop/__init__.py": ""}.items():
        (folder / name).write_text(text)

    with thread_box() as box:
        given = environment(box, DJANGO_SETTINGS_MODULE="settings")

        def python(*words: str) -> str:
            done = subprocess.run(
                [sys.executable, *words], cwd=folder, env=given, capture_output=True, text=True, check=False
            )
            assert 0 == done.returncode, done.stderr
            return done.stdout

        python("-c", PREPARED)
        # The second one is the same order, sent again.
        box.send("orders", [_order(17), _order(17)], queue=0)
        if way == "manage":
            _until_handled([sys.executable, "-m", "django", "consume"], folder, given, box)
        else:
            python("-m", "framework", "run", "--config", "shop.yaml", "--until-idle", "200ms")

        assert "[('17', 250)]\n" == python("-c", COUNTED)


def _order(number: int) -> Any:
    from framework import Message

    return Message("orders", json.dumps({"number": str(number), "cents": 250}))


def _until_handled(command: list[str], folder: Path, given: dict[str, str], box: ThreadBox) -> None:
    """Until the group has committed both: then SIGTERM, and it says what it has done."""
    from framework.model.queue import MessageQueue
    from framework.reading import Reader, ReaderSettings

    running = subprocess.Popen(command, cwd=folder, env=given, stdout=subprocess.PIPE, text=True)
    try:
        with Reader(ReaderSettings((box.address,))) as reader:
            queue = MessageQueue("orders", "broker-a", 0)
            Command(running).wait_until(lambda: reader.committed("billing", queue) == 2, "both were handled")
        running.send_signal(signal.SIGTERM)
        said, _ = running.communicate()
    finally:
        running.kill()
        running.wait()
    assert 0 == running.returncode
    assert "drained: handled=2 left=0" in said


# A plugin


@pytest.mark.parametrize("folder", ["plugin.md"], indirect=True)
def test_the_plugin_of_the_page_is_loaded_and_passes_its_test(folder: Path) -> None:
    (folder / "orders.py").write_text(
        "from framework import consumer\n\n\n@consumer('orders', 'billing')\ndef bill(): ...\n"
    )

    def run(*words: str) -> str:
        command = [sys.executable, "-m", *words]
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, "PYTHONPATH": "."}, capture_output=True, text=True, check=False
        )
        assert 0 == done.returncode, done.stdout + done.stderr
        return done.stdout

    assert "1 passed" in run("pytest", "-q", *BARE, "test_slow_alarm.py")
    assert "slow_alarm" in run("framework", "plugins")
