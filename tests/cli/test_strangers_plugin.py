"""A stranger's plugin, installed outside the repository: everything it brings is used by the real commands.

It is a folder with a module and the metadata that an installation leaves, and only the path says where it is. Nothing
of ours knows its name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from framework.cli.exit_codes import ExitCode
from tests.cli.processes import ROOT, Command, command

STRANGER = '''
"""What a company has of its own."""

import threading
import time

from pydantic import BaseModel

from framework import Drop
from framework.hooks import Skip, hookimpl
from framework.settings.units import Duration


class Settings(BaseModel):
    greeting: str = "hello"
    patience: Duration = 0


class FirstTakesAll:
    name = "acme_first"

    def allocate(self, member, members, queues):
        print(f"divided by acme_first", flush=True)
        return list(queues) if members and member == members[0] else []


class Impatient:
    name = "acme_impatient"

    def decide(self, delivery, age_ms):
        return Drop("acme", "took too long")


class Greet:
    """Greet as the settings say."""

    def __init__(self, settings):
        self._settings = settings

    def add_options(self, parser):
        parser.add_argument("--times", type=int, default=1)

    def execute(self, arguments, settings):
        print(" ".join([self._settings.greeting] * arguments.times), settings.app.name)
        return 0


class Acme:
    def __init__(self, settings):
        self._settings = settings

    @staticmethod
    @hookimpl
    def register_settings():
        return Settings

    @hookimpl
    def register_allocation_strategies(self):
        return [FirstTakesAll()]

    @hookimpl
    def register_expiry_policies(self):
        return [Impatient()]

    @hookimpl
    def register_commands(self):
        return {"greet": Greet(self._settings)}

    @hookimpl
    def register_broker_handlers(self):
        return dict.fromkeys((10, 310), self.send)

    def send(self, request):
        print(f"acme lets {request.code} of {len(request.body)} bytes pass", flush=True)

    @hookimpl
    def after_chunk(self, summary):
        print(f"acme counts {summary.handled}", flush=True)

    @hookimpl
    def before_consume(self, delivery):
        return Skip("not ours") if delivery.message.body == b"skipped" else None


class Raising:
    @hookimpl
    def before_consume(self):
        raise RuntimeError("acme is closed")

    @hookimpl
    def around_consume(self):
        raise RuntimeError("acme is closed")

    @hookimpl
    def after_consume(self):
        raise RuntimeError("acme is closed")


class Slow:
    name = "acme_slow"

    @hookimpl
    def after_consume(self, delivery):
        if delivery.message.body == b"a":
            time.sleep(0.15)  # slow on purpose: it shall be named

    @hookimpl
    def register_allocation_strategies(self):
        return [self]

    def allocate(self, member, members, queues):
        time.sleep(0.15)  # slow on purpose: it shall be named
        return list(queues) if members and member == members[0] else []


class SlowPolicy:
    name = "acme_slow"

    @hookimpl
    def register_expiry_policies(self):
        return [self]

    def decide(self, delivery, age_ms):
        time.sleep(0.15)  # slow on purpose: it shall be named
        return Drop("acme", "took too long")
'''

SHOP = """
import asyncio

from framework import Message, Producer, consumer
from framework.hooks import hookimpl


@consumer("orders", "billing")
async def bill(order: Message) -> None:
    if order.body == b"stuck":
        await asyncio.Event().wait()


class Sends:
    @hookimpl
    def app_started(self, app):
        self.task = asyncio.get_running_loop().create_task(self.send(app))

    async def send(self, app):
        async with Producer(cluster=app.cluster) as producer:
            for body in ("a", "skipped", "stuck", "b"):
                await producer.send("orders", body, keys=body)
"""
SETTINGS = """
app: {name: desk, handlers: [shop]}
cluster: {request_timeout: 60s}
consumers: {billing: {start: first, allocation: acme_first, expiry: acme_impatient, timeout: 1s}}
plugins:
  local: [shop]
  settings: {acme: {greeting: moin}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An application's folder."""
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "shop.py").write_text(SHOP)
    (tmp_path / "app" / "framework-app.yaml").write_text(SETTINGS)
    return tmp_path / "app"


def installed(tmp_path: Path, entries: Mapping[str, str], text: str = STRANGER) -> dict[str, str]:
    """The plugin as an installation leaves it, and the environment in which it is found."""
    site = tmp_path / "elsewhere"
    metadata = site / "acme_tools-4.2.dist-info"
    metadata.mkdir(parents=True)
    (site / "acme_tools.py").write_text(text)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-tools\nVersion: 4.2\n")
    lines = "".join(f"{name} = {value}\n" for name, value in entries.items())
    (metadata / "entry_points.txt").write_text(f"[framework_app.plugins]\n{lines}")
    return {"PYTHONPATH": os.pathsep.join([str(ROOT), str(site)])}


def handle_all(running: Command) -> None:
    """Until each of the four messages has its event."""
    for _ in range(4):
        running.line()
    assert 0 == running.end()


def test_all_that_it_brings_is_used_with_no_change_to_ours(
    tmp_path: Path, folder: Path, box: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A strategy and a policy by name, a hook's verdict, a command, and its settings."""
    environment = installed(tmp_path, {"acme": "acme_tools:Acme"})

    run = ("run", "--name-server", box, "--json")
    with command(*run, folder=folder, environment=environment) as running:
        handle_all(running)
    printed = capfd.readouterr().err.splitlines()  # with --json stdout is for events
    assert "divided by acme_first" in printed
    events = [json.loads(line) for line in running.lines if line.startswith("{")]
    assert {
        ("handled", "a", "Ack"), ("handled", "b", "Ack"), ("dropped", "skipped", "Drop"), ("dropped", "stuck", "Drop"),
    } == {(each["event"], each["key"], each["outcome"]) for each in events[:-1]}  # fmt: skip
    assert 2 == sum(int(line.split()[2]) for line in printed if line.startswith("acme counts "))

    with command("greet", "--times", "2", folder=folder, environment=environment) as greeting:
        assert 0 == greeting.end(None)
    assert ["moin moin desk"] == greeting.lines

    with command("plugins", folder=folder, environment=environment) as listing:
        assert 0 == listing.end(None)
    assert any(line.startswith("acme ") and "acme-tools 4.2" in line for line in listing.lines)
    assert "framework-app greet  of acme: Greet as the settings say." in listing.lines


def test_its_settings_are_checked_with_their_place(tmp_path: Path, folder: Path) -> None:
    environment = installed(tmp_path, {"acme": "acme_tools:Acme"})
    (folder / "framework-app.yaml").write_text(SETTINGS.replace("greeting: moin", "patience: soon"))

    with command("check", folder=folder, environment=environment) as checking:
        assert ExitCode.CONFIGURATION == checking.end(None)
    assert checking.lines[0].startswith("framework-app.yaml:7:21: plugins.settings.acme.patience: ")


def test_one_that_raises_and_one_that_is_slow_hurt_no_message_and_are_named(
    tmp_path: Path, folder: Path, box: str, capfd: pytest.CaptureFixture[str]
) -> None:
    entries = {"acme": "acme_tools:Acme", "raising": "acme_tools:Raising"}
    entries |= {"slow": "acme_tools:Slow", "patient": "acme_tools:SlowPolicy"}
    environment = installed(tmp_path, entries)

    run = ("run", "--name-server", box, "--json", "--set", "logging.format=json")
    slow = ("--set", "consumers.billing.allocation=acme_slow", "--set", "consumers.billing.expiry=acme_slow")
    with command(*run, *slow, folder=folder, environment=environment) as running:
        handle_all(running)

    assert {"event": "stopped", "handled": 2, "retried": 0, "dead_lettered": 0, "abandoned": 0} == json.loads(
        running.lines[-1]
    )
    logged = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    named = {
        (each["event"], each["plugin"], each["hook"])
        for each in logged
        if each["event"] in {"hook failed", "hook slow"}
    }
    assert {
        ("hook failed", "raising", "before_consume"),
        ("hook slow", "slow", "register_allocation_strategies"),
        ("hook slow", "patient", "register_expiry_policies"),
    } <= named


def test_the_box_takes_its_handlers_where_it_is_named(
    tmp_path: Path, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    environment = installed(tmp_path, {"acme": "acme_tools:Acme"})

    with command("broker", "--memory", "--plugin", "acme", folder=tmp_path, environment=environment) as broker:
        address = broker.until("broker: ready").split("namesrv=")[1].split()[0]
        run = ("run", "--name-server", address, "--json")
        with command(*run, folder=folder, environment=environment) as running:
            handle_all(running)
        assert 0 == broker.end()

    assert 2 == json.loads(running.lines[-1])["handled"]
    passed = [line for line in broker.lines if line.startswith("acme lets ")]
    assert len(passed) >= 4, "each message that was sent"

    dev = ("dev", "--name-server", "127.0.0.1:1", "--box-plugin", "acme")
    wrong, usage = ExitCode.CONFIGURATION, ExitCode.USAGE
    for options, code, reason in (
        (("broker", "--memory", "--plugin", "acm"), wrong, "no plugin 'acm' is installed, and there is no such module"),
        (("broker", "--memory", "--plugin", "audit"), wrong, "plugin 'audit' has no register_broker_handlers"),
        (dev, usage, "--box-plugin is for the built-in broker"),
    ):
        with command(*options, folder=folder, environment=environment) as refused:
            assert code == refused.end(None)
        assert reason in capfd.readouterr().err


def test_one_that_lacks_what_it_needs_stops_the_start_with_its_name_unless_it_is_blocked(
    tmp_path: Path, folder: Path, box: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """No message is touched by a start that does not come about; a policy that is missing would go unnoticed."""
    environment = installed(tmp_path, {"acme": "acme_tools:Acme", "lacking": "lacking:Plugin"})
    lacking = tmp_path / "elsewhere" / "lacking.py"
    lacking.write_text("import no_such_driver\n")
    raised = f"ModuleNotFoundError: No module named 'no_such_driver' ({lacking}:1)"
    cause = f"plugin 'lacking' (acme-tools 4.2) cannot be loaded: {raised}"

    run = ("run", "--name-server", box, "--json")
    with command(*run, folder=folder, environment=environment) as refused:
        assert ExitCode.CONFIGURATION == refused.end(None)
    (said,) = capfd.readouterr().err.splitlines()
    assert f"{cause}; fix it, or write plugins: {{block: [lacking]}}" == json.loads(said)["error"]

    with command("plugins", folder=folder, environment=environment) as listing:
        assert ExitCode.CONFIGURATION == listing.end(None)
    assert listing.lines[-1].startswith(f"wrong: {cause}")
    with command("greet", folder=folder, environment=environment) as greeting:
        assert 0 == greeting.end(None), "others' commands go on"

    blocked = ("--set", "plugins.block=lacking")
    with command(*run, *blocked, folder=folder, environment=environment) as running:
        handle_all(running)
    assert 2 == json.loads(running.lines[-1])["handled"]


def test_a_command_that_nobody_has_is_usage_and_names_the_nearest(
    tmp_path: Path, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    environment = installed(tmp_path, {"acme": "acme_tools:Acme"})

    with command("gret", folder=folder, environment=environment) as mistyped:
        assert ExitCode.USAGE == mistyped.end(None)
    assert "there is no command 'gret'; did you mean 'greet'?" in capfd.readouterr().err
