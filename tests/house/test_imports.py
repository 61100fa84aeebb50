"""What a process imports: a consumer that runs loads nothing of the box, the dashboard or other commands, and the box
nothing of consuming or of settings.

Counted and not timed: how long an import takes says more about the machine. `python -m benchmarks.imports` times it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest

from framework import Producer

ROOT = Path(__file__).parents[2]
RUNNING = """
import asyncio, json, sys
from framework import App, Message, RetryLater, consumer, resource
from framework.settings.schema import AppSettings
from pydantic import BaseModel

class Order(BaseModel):
    number: int

seen = {"async": 0, "plain": 0, "batch": 0, "ordered": 0}

@resource
async def desk():
    yield "desk"

@consumer("orders", "asynchronous")
async def one(order: Order, desk):
    seen["async"] += order.number

@consumer("orders", "plain")
def another(order: Message):
    seen["plain"] += 1

@consumer("orders", "batches", batch=2, linger="10ms")
async def several(orders: list[Order]):
    seen["batch"] += len(orders)

@consumer("orders", "ordered", orderly=True, tags="*")
async def ordered(order: dict):
    seen["ordered"] += 1

async def main():
    consumers = [one, another, several, ordered]
    groups = {each.spec.group: {"start": "first"} for each in consumers}
    settings = {"cluster": {"name_servers": [sys.argv[1]]}, "consumers": groups}
    app = App(AppSettings.model_validate(settings), consumers)
    running = asyncio.get_running_loop().create_task(app.run())
    while min(seen.values()) < 3:
        assert not running.done()
        await asyncio.sleep(0.01)
    found = sorted(sys.modules)
    await app.stop(drain="5s")
    await running
    return found

found = asyncio.run(main())
sys.stdout.write(json.dumps(sorted({*found, *sys.modules})))
"""
PUBLIC = "import json, sys, framework; sys.stdout.write(json.dumps(sorted(sys.modules)))"
IMPORTED_MAX = 80
"""By `import framework`, the standard library's included; sixty when this was written: a millisecond or two."""
HANDLERS = "from framework import Ack, DeadLetter, Delivery, Message, Retry, RetryLater, consumer, publishes, resource"
HANDLERS_MAX = 200
"""By what a module of handlers imports: it is what tests, and tools that only look, load."""


def modules_of(program: str, *arguments: str) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-I", "-c", program, *arguments], capture_output=True, text=True, timeout=240, check=False
    )
    assert not ended.returncode, ended.stderr
    found: list[str] = json.loads(ended.stdout.splitlines()[-1])
    return found


async def send(address: str) -> None:
    async with Producer(name_servers=[address]) as producer:
        for number in (1, 2, 3):
            await producer.send("orders", json.dumps({"number": number}))


@pytest.fixture(scope="module")
def running() -> list[str]:
    """What a process has imported that has handled messages in every way, from a broker in another process."""
    command = [sys.executable, "-m", "framework", "broker", "--memory"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            address = broker.stdout.readline().split("namesrv=")[1].split()[0]
            asyncio.run(send(address))
            return modules_of(RUNNING, address)
        finally:
            broker.terminate()


@pytest.mark.parametrize(
    "name", ["sqlite3", "h11", "framework.net.http", "framework.cli", "framework.broker", "framework.dashboard"]
)
def test_a_running_consumer_imports_none_of_it(running: list[str], name: str) -> None:
    assert {"framework.runtime.group.group", "framework.services.orderly.pool", "framework.net.channel"} <= set(running)
    assert [] == [each for each in running if each == name or each.startswith(f"{name}.")]


def test_the_public_names_bring_little_with_them() -> None:
    found = modules_of(PUBLIC)

    assert "framework" in found
    assert len(found) <= IMPORTED_MAX, f"{len(found)} modules"
    banned = ("sqlite3", "yaml", "pydantic", "structlog", "asyncio", "framework.")
    assert [] == [each for each in found if each.startswith(banned)]


def test_a_module_of_handlers_brings_no_client_no_settings_and_no_plugins() -> None:
    found = modules_of(f"import json, sys; {HANDLERS}; sys.stdout.write(json.dumps(sorted(sys.modules)))")

    assert len(found) <= HANDLERS_MAX, f"{len(found)} modules"
    banned = ("sqlite3", "yaml", "pydantic", "pluggy", "framework.settings", "framework.runtime", "framework.client",
              "framework.net", "framework.services", "framework.hooks", "framework.cli")  # fmt: skip
    assert [] == [each for each in found if each.startswith(banned)]


KIT = "import framework.testing.harness, framework.testing.plugin_laws, framework.testing.pytest_plugin"
LABORATORY = ("tests", "benchmarks")
KIT_MAX, KIT_LINES_MAX = 40, 4_000
"""Modules of `framework.testing` that it loads, and lines that users install; with the laboratory 110 and 15,000."""


def test_what_authors_test_with_brings_nothing_of_the_laboratory() -> None:
    found = modules_of(f"import json, sys; {KIT}; sys.stdout.write(json.dumps(sorted(sys.modules)))")
    kit = [each for each in found if each.startswith("framework.testing")]

    assert "framework.testing.sim.virtual_loop" in kit, "or this would show nothing"
    assert len(kit) <= KIT_MAX
    assert [] == [each for each in found if each.partition(".")[0] in LABORATORY]


def test_the_wheel_has_the_framework_and_no_laboratory() -> None:
    """What plays random runs stands beside the tests, and a wheel takes one folder."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    shipped = [path for path in (ROOT / "framework").rglob("*.py") if "testing" in path.parts]

    assert {"packages": ["framework"]} == wheel
    assert {"testing", "sim"} == {path.parent.name for path in shipped}
    assert KIT_LINES_MAX > sum(len(path.read_text().splitlines()) for path in shipped)
    assert (ROOT / "tests" / "simulation" / "checkers").is_dir(), "or this would show nothing"


@pytest.fixture(scope="module")
def box() -> list[str]:
    """What `framework-app broker` has imported when it listens."""
    command = [sys.executable, "-X", "importtime", "-m", "framework", "broker", "--memory"]
    with tempfile.TemporaryFile("w+") as told:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=told, text=True) as broker:
            assert broker.stdout is not None
            line = broker.stdout.readline()
            broker.terminate()
        told.seek(0)
        lines = told.read().splitlines()
    assert line.startswith("broker: ready"), lines[-5:]
    return [each.rpartition("|")[2].strip() for each in lines if each.startswith("import time:")]


HEAVY = ("pydantic", "pydantic_core", "pydantic_settings", "yaml", "pluggy", "lz4", "zstandard", "rich.console",
         "pygments")  # fmt: skip
CONSUMING = ("framework.settings.schema", "framework.client", "framework.core", "framework.declare", "framework.hooks",
             "framework.reading", "framework.services", "framework.testing")  # fmt: skip
LATE = ("framework.broker.handlers.pull", "framework.broker.handlers.send")


@pytest.mark.parametrize("name", [*HEAVY, *CONSUMING, *LATE])
def test_the_box_starts_without_it(box: list[str], name: str) -> None:
    assert "framework.broker.server" in box, "or this would show nothing"
    assert [] == [each for each in box if each == name or each.startswith(f"{name}.")]
