"""`new app` and `new plugin`: what they write passes as it is, and nothing of the user's is written over."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from framework.cli import main
from framework.cli.exit_codes import ExitCode
from framework.hooks.host import GROUP, PluginHost
from tests.bare_pytest import BARE
from tests.cli.processes import ROOT

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ran(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return ran_as_typed(folder, sys.executable, "-m", *arguments)


def ran_as_typed(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": " ".join(BARE)}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("kind", "name", "checked", "tests"),
    [("app", "order_desk", "check: ok, 1 consumer,", 3), ("plugin", "late_orders", "check: ok, 1 consumer,", 1)],
)
def test_what_is_written_passes_as_it_is(kind: str, name: str, checked: str, tests: int, folder: Path) -> None:
    assert ExitCode.CLEAN == main.run(["new", kind, name])

    check = ran(folder / name, "framework", "check")
    assert checked in check.stdout
    assert ExitCode.CLEAN == check.returncode
    # Not `python -m pytest`, which would let modules of the folder be imported whatever the folder's settings say.
    tested = ran_as_typed(folder / name, str(Path(sys.executable).with_name("pytest")), "-q")
    assert f"{tests} passed" in tested.stdout, tested.stdout
    tidy = ran(folder / name, "ruff", "format", "--isolated", "--line-length", "120", "--check", ".")
    assert ExitCode.CLEAN == tidy.returncode, tidy.stdout
    assert ExitCode.CLEAN == ran(folder / name, "ruff", "check", "--isolated", "--select", "F,E4,I", ".").returncode


def test_a_new_app_is_a_package_of_its_own_and_says_how_its_tests_get_what_they_need(folder: Path) -> None:
    """Two of them in one environment had one `handlers.py`: that of the last one installed."""
    for name in ("order_desk", "stock_room"):
        assert ExitCode.CLEAN == main.run(["new", "app", name])
        project = tomllib.loads((folder / name / "pyproject.toml").read_text())
        assert [name] == project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
        assert (folder / name / name / "handlers.py").is_file()
        assert "pip install -e '.[dev]'" in (folder / name / "README.md").read_text()


def test_a_new_app_runs_in_dev(folder: Path) -> None:
    assert ExitCode.CLEAN == main.run(["new", "app", "order_desk"])

    developed = ran(folder / "order_desk", "framework", "dev", "--for", "2s")

    assert "drained: handled=0 retried=0 dead=0 left=0" == developed.stdout.splitlines()[-1]
    assert ExitCode.CLEAN == developed.returncode


def test_a_new_plugin_lists_its_hooks_and_comes_in_by_its_entry_point(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its own folder, named by the settings there; installed, by nobody."""
    assert ExitCode.CLEAN == main.run(["new", "plugin", "early_birds"])
    project = tomllib.loads((folder / "early_birds" / "pyproject.toml").read_text())["project"]
    ((name, value),) = project["entry-points"][GROUP].items()
    monkeypatch.syspath_prepend(folder / "early_birds")

    host = PluginHost(discover=lambda: [EntryPoint(name, value, GROUP)])
    del sys.modules["early_birds"]

    assert "early-birds" == project["name"]
    assert ("register_settings", "after_consume") == next(
        each.hooks for each in host.plugins if each.name == "early_birds"
    )
    # As the installed command is: the current folder is not where Python looks by itself.
    program = "import sys; sys.path.pop(0); from framework.cli.main import run; sys.exit(run(['plugins']))"
    listed = subprocess.run(
        [sys.executable, "-c", program], cwd=folder / "early_birds", capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert re.search(r"(?m)^early_birds +early_birds: register_settings, after_consume$", listed.stdout), listed.stderr


@pytest.mark.parametrize("kind", ["app", "plugin"])
def test_every_file_is_listed_and_names_no_machine(kind: str, folder: Path, capsys: Capture) -> None:
    assert ExitCode.CLEAN == main.run(["new", kind, "order_desk"])

    *wrote, last = capsys.readouterr().out.splitlines()
    there = [path for path in folder.rglob("*") if path.is_file()]
    assert sorted(f"wrote {path.relative_to(folder)}" for path in there) == sorted(wrote)
    assert "next: cd order_desk && framework-app dev" == last
    for path in there:
        text = path.read_text()
        assert not re.search(rf"\$|NAME|{re.escape(str(ROOT))}|{re.escape(str(folder))}", text), path


@pytest.mark.parametrize(
    ("kind", "name", "way_out"),
    [
        ("app", "order-desk", "try order_desk"),
        ("app", "../desk", "try desk"),
        ("app", "9", "begin with a letter"),
        ("app", "größe", "letters, digits and _"),
        ("app", "class", "try class_app"),
        ("app", "a" * 65, "use 64 at most"),
        ("plugin", "json", "try json_plugin"),
        ("app", "json", "there is a 'json' already, of Python's or of framework-app's; try json_app"),
        ("app", "os", "try os_app"),
        ("app", "framework", "try framework_app"),
        ("app", "tests", "try tests_app"),
        ("app", "yaml", "there is a module 'yaml' already, which this Python has installed; try yaml_app"),
        ("plugin", "yaml", "try yaml_plugin"),
        ("plugin", "sticky", "try sticky_plugin"),
        ("plugin", "handlers", "try handlers_plugin"),
    ],
)
def test_a_name_that_cannot_be_used_is_2(kind: str, name: str, way_out: str, folder: Path, capsys: Capture) -> None:
    assert ExitCode.USAGE == main.run(["new", kind, name])

    complaint = capsys.readouterr().err
    assert way_out in complaint
    assert complaint.endswith(" [FA-U002]\nhint: framework-app explain FA-U002\n")
    assert [] == list(folder.iterdir())


def test_what_is_there_already_is_left_alone_and_73(folder: Path, capsys: Capture) -> None:
    (folder / "desk").mkdir()
    (folder / "desk" / "mine").write_text("mine")
    (folder / "shelf").write_text("mine")

    assert ExitCode.TAKEN == main.run(["new", "app", "desk"])
    assert ExitCode.TAKEN == main.run(["new", "app", "shelf"])

    folder_said, _, file_said, _ = capsys.readouterr().err.splitlines()
    assert folder_said.endswith("desk is a folder with something in it; choose another name, or move it away [FA-B001]")
    assert file_said.endswith("shelf is a file; choose another name, or move it away [FA-B001]")
    assert ["mine"] == [path.name for path in (folder / "desk").iterdir()]


def test_an_empty_folder_is_filled(folder: Path) -> None:
    (folder / "desk").mkdir()

    assert ExitCode.CLEAN == main.run(["new", "app", "desk"])
    assert (folder / "desk" / "desk" / "handlers.py").is_file()
