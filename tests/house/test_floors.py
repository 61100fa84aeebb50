"""Import contracts: they hold, and each one is seen to fail when somebody breaks it."""

from __future__ import annotations

import re
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


BROKEN = [
    ("core/chunk.py", "from framework.services import pull as _p", "Rooms stand on the rooms below them"),
    ("settings/units.py", "import framework.wire.codes as _c", "Rooms stand on the rooms below them"),
    ("core/window.py", "import time as _t", "The pure rooms know no clock"),
    ("wire/frame.py", "import framework.core.chunk as _c", "wire knows nothing of consuming"),
    ("broker/holds.py", "import framework.client.options as _o", "the broker and the consumer share the wire"),
    ("audit/framework_audit/plugin.py", "import framework.net.channel as _c", "a first-party plugin uses only"),
    (
        "outbox/framework_outbox/relay.py",
        "import framework.services.queue.pull as _p",
        "a first-party plugin uses only",
    ),
    ("reading/reach.py", "import framework.client.routes as _r", "reading knows the wire"),
    ("hooks/host.py", "import framework_audit as _a", "the framework imports no plugin"),
    ("testing/harness.py", "import tests.simulation.cluster as _c", "nothing of what only tests it"),
    ("services/pool/run.py", "import framework.services.queue.pull as _p", "Services stand on the services"),
    ("services/queue/pull.py", "import framework.services.orderly.pool as _o", "Services stand on the services"),
    ("runtime/group/plan.py", "import framework.runtime.report.observe as _o", "Nothing that is built runs"),
    ("runtime/logs/places.py", "import framework.runtime.group.group as _g", "Nothing that is built runs"),
]
"""File of the framework or of a plugin, the line that breaks a rule there, and the rule."""


def test_each_broken_rule_is_noticed(copy: Path) -> None:
    """All at once, and each is named in its rule's own part of what is said."""
    for file, line, _ in BROKEN:
        with place(copy, file).open("a") as source:
            source.write(f"\n{line}\n")

    code, output = linted(copy)

    assert 0 != code
    parts = re.split(r"\n(?=[^\n]+\n-{9,}\n)", output.partition("Broken contracts")[2])
    for file, line, contract in BROKEN:
        (part,) = [each for each in parts if contract in each.partition("---")[0]]
        module = ".".join(place(copy, file).relative_to(copy).with_suffix("").parts)
        importer = re.sub(r"^plugins\.\w+\.", "", module)
        assert f"{importer} -> {line.split()[1].removesuffix('.simulation.cluster')}" in part, line


def place(copy: Path, file: str) -> Path:
    first = copy / "framework" / file
    return first if first.exists() else copy / "plugins" / file


def test_a_new_room_that_has_no_floor_is_noticed(copy: Path) -> None:
    (copy / "framework/attic").mkdir()
    (copy / "framework/attic/__init__.py").touch()

    code, output = linted(copy)

    assert 0 != code
    assert "Rooms stand on the rooms below them" in (output.partition("Broken contracts")[2] or output)
