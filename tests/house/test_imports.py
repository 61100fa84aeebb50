"""What a process imports: a consumer that runs loads nothing of the box, the dashboard or other commands, and the box
nothing of consuming or of settings.

Counted and not timed: how long an import takes says more about the machine. `import framework` has its figure in the
benchmarks.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

import pytest

RUNNING = """
import asyncio, json, sys
from framework import App, consumer
from framework.settings.schema import AppSettings

@consumer("orders", "billing")
async def bill(message): ...

async def main():
    app = App(AppSettings.model_validate({"cluster": {"name_servers": ["127.0.0.1:1"]}}), [bill])
    running = asyncio.get_running_loop().create_task(app.run())
    while not app.snapshot().groups:
        await asyncio.sleep(0.01)
    await app.stop(drain="0s")
    await running

asyncio.run(main())
sys.stdout.write(json.dumps(sorted(sys.modules)))
"""
PUBLIC = "import json, sys, framework; sys.stdout.write(json.dumps(sorted(sys.modules)))"
IMPORTED_MAX = 150
"""By `import framework`, the standard library's included; sixty when this was written."""


def modules_of(program: str) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert not ended.returncode, ended.stderr
    found: list[str] = json.loads(ended.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def running() -> list[str]:
    return modules_of(RUNNING)


@pytest.mark.parametrize("name", ["sqlite3", "framework.cli", "framework.broker", "framework.dashboard"])
def test_a_running_consumer_imports_none_of_it(running: list[str], name: str) -> None:
    assert "framework.runtime.group" in running, "or this would show nothing"
    assert [] == [each for each in running if each == name or each.startswith(f"{name}.")]


def test_the_public_names_bring_little_with_them() -> None:
    found = modules_of(PUBLIC)

    assert "framework" in found
    assert len(found) <= IMPORTED_MAX, f"{len(found)} modules"
    banned = ("sqlite3", "yaml", "framework.cli", "framework.broker", "framework.testing", "pytest")
    assert [] == [each for each in found if each.startswith(banned)]


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


@pytest.mark.parametrize("name", [*HEAVY, *CONSUMING])
def test_the_box_starts_without_it(box: list[str], name: str) -> None:
    assert "framework.broker.server" in box, "or this would show nothing"
    assert [] == [each for each in box if each == name or each.startswith(f"{name}.")]
