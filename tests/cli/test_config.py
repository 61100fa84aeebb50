"""`config explain`: the settings and their places on stdout; a mistake is 78. `config schema`: what editors read."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from framework.cli import main
from framework.cli.exit_codes import ExitCode
from framework.hooks.host import PluginHost
from framework.settings.json_schema import json_schema

Capture = pytest.CaptureFixture[str]
PLUGIN = """
from pydantic import BaseModel, SecretStr
from framework.hooks import hookimpl

class Settings(BaseModel):
    where: SecretStr
    often: int

class Nightly:
    def __init__(self, settings):
        pass

    @staticmethod
    @hookimpl
    def register_settings():
        return Settings
"""


def test_what_was_written_is_told_apart_from_defaults(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "app.yaml"
    file.write_text("app:\n  name: desk\n")

    assert ExitCode.CLEAN == main.run(["config", "explain", "-c", str(file), "--set", "app.drain=5s", "--written"])
    assert [
        f"app.name: desk  # {file}:2:3",
        "app.drain: 5s   # --set app.drain",
    ] == capsys.readouterr().out.splitlines()

    assert ExitCode.CLEAN == main.run(["config", "explain", "-c", str(file)])
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("cluster.request_timeout: 3s") and line.endswith("# default") for line in lines)


def test_a_mistake_is_said_with_its_place(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "app.yaml"
    file.write_text("app:\n  nam: desk\n")

    assert ExitCode.CONFIGURATION == main.run(["config", "explain", "-c", str(file)])
    assert f"{file}:2" in capsys.readouterr().err


def test_a_plugin_is_asked_which_of_its_settings_are_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "nightly.py").write_text(PLUGIN)
    (tmp_path / "framework-app.yaml").write_text(
        "plugins: {local: [nightly], settings: {nightly: {where: hush-hush, often: 5}, gone: {dsn: 'a://u:hush@h'}}}\n"
    )

    assert ExitCode.CLEAN == main.run(["config", "explain", "--written"])
    said = capsys.readouterr()
    assert "hush" not in said.out + said.err
    for line in ("nightly.where: ***", "nightly.often: 5", "gone.dsn: a://u:***@h"):
        assert f"plugins.settings.{line} " in said.out


def test_the_schema_is_printed_for_editors_with_what_plugins_may_be_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Those that are installed, and those that the settings name: whatever else is wrong with them just now."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "nightly.py").write_text(PLUGIN)
    (tmp_path / "framework-app.yaml").write_text("app: {drain: soon}\nplugins: {local: [nightly, not_there]}\n")

    assert ExitCode.CLEAN == main.run(["config", "schema"])
    said = capsys.readouterr()
    printed = json.loads(said.out)
    plugins = PluginHost().models
    assert {"audit", "outbox", "spark"} <= plugins.keys()
    assert {*plugins, "nightly"} == set(printed["$defs"]["PluginsSettings"]["properties"]["settings"]["properties"])
    assert json_schema(plugins)["properties"] == printed["properties"]
    assert ["often", "where"] == sorted(printed["$defs"]["nightly"]["properties"])
    assert "left out: " in said.err
    assert "not_there" in said.err


def test_what_plugins_may_be_told_is_explained_with_its_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "plugins: {settings: {audit: {flush_lines: 9}, spark: {groups: {revenue: {mode: driver}}}}}\n"
    (tmp_path / "framework-app.yaml").write_text(text)

    assert ExitCode.CLEAN == main.run(["config", "explain"])
    lines = {line.partition(":")[0]: line for line in capsys.readouterr().out.splitlines()}
    for name, value, place in (
        ("audit.flush_lines", "9", "framework-app.yaml:1:"),
        ("audit.flush_after", "1s", "default"),
        ("outbox.keep", "1h", "default"),
        ("outbox.database", '""', "default"),
        ("spark.groups.revenue.mode", "driver", "framework-app.yaml:1:"),
        ("spark.groups.revenue.checkpoint", '""', "default"),
    ):
        line = lines[f"plugins.settings.{name}"]
        assert line.startswith(f"plugins.settings.{name}: {value} ")
        assert f"# {place}" in line


def test_the_schema_has_nothing_that_is_written(capsys: Capture) -> None:
    assert ExitCode.USAGE == main.run(["config", "schema", "--written"])
    assert "leave out --written [FA-U002]\n" in capsys.readouterr().err
