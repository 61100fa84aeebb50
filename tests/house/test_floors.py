"""Import contracts: they hold, and each one is seen to fail when somebody breaks it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def linted(folder: Path) -> tuple[int, str]:
    """lint-imports over the tree in this folder, and not over the one that is installed."""
    program = "import sys; from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": ":".join(map(str, (folder, *(folder / "plugins").iterdir()))), "PATH": "", "COLUMNS": "200"},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "framework", tmp_path / "framework", ignore=ignored)
    shutil.copytree(ROOT / "plugins", tmp_path / "plugins", ignore=ignored)
    shutil.copy(ROOT / ".importlinter", tmp_path)
    return tmp_path


def test_the_floors_hold(copy: Path) -> None:
    code, output = linted(copy)

    assert 0 == code, output
    assert "0 broken" in output


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("framework/core/chunk.py", "from framework.services import pull as _p", "Rooms stand on the rooms below them"),
        ("framework/settings/units.py", "import framework.wire.codes as _c", "Rooms stand on the rooms below them"),
        ("framework/core/window.py", "import time as _t", "The pure rooms know no clock"),
        ("framework/wire/frame.py", "import framework.core.chunk as _c", "wire knows nothing of consuming"),
        (
            "framework/broker/holds.py",
            "import framework.client.options as _o",
            "the broker and the consumer share the wire",
        ),
        (
            "plugins/audit/framework_audit/plugin.py",
            "import framework.net.channel as _c",
            "a first-party plugin uses only",
        ),
        (
            "plugins/outbox/framework_outbox/relay.py",
            "import framework.services.queue.pull as _p",
            "a first-party plugin uses only",
        ),
        ("framework/reading/reach.py", "import framework.client.routes as _r", "reading knows the wire"),
        ("framework/hooks/host.py", "import framework_audit as _a", "the framework imports no plugin"),
        ("framework/testing/harness.py", "import tests.simulation.cluster as _c", "nothing of what only tests it"),
        (
            "framework/services/pool/run.py",
            "import framework.services.queue.pull as _p",
            "Services stand on the services",
        ),
        ("framework/services/queue/pull.py", "import framework.services.orderly.pool as _o", "Services stand on the"),
        (
            "framework/runtime/group/plan.py",
            "import framework.runtime.report.observe as _o",
            "Nothing that is built runs",
        ),
        (
            "framework/runtime/logs/places.py",
            "import framework.runtime.group.group as _g",
            "Nothing that is built runs",
        ),
        ("framework/attic/__init__.py", "", "Rooms stand on the rooms below them"),
    ],
)
def test_a_broken_rule_is_noticed(copy: Path, file: str, line: str, contract: str) -> None:
    """The last row is a new room that has no floor yet."""
    path = copy / file
    path.parent.mkdir(exist_ok=True)
    text = path.read_text() if path.exists() else ""
    path.write_text(f"{text}\n{line}\n")

    code, output = linted(copy)

    assert 0 != code
    broken = output.partition("Broken contracts")[2] or output
    assert contract in broken
