"""`check` and `plugins`: results on stdout, nothing else there."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from framework.cli import main
from framework.cli.exit_codes import ExitCode

Capture = pytest.CaptureFixture[str]

SHOP = """
from framework import consumer

@consumer("orders", "billing")
def bill(order): ...
"""


@pytest.fixture(autouse=True)
def _shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "checked_shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "checked_shop", raising=False)
    yield
    structlog.reset_defaults()


def test_a_right_application_is_ok(capsys: Capture) -> None:
    assert ExitCode.CLEAN == main.run(["check", "checked_shop.py"])
    assert capsys.readouterr().out.startswith("check: ok, 1 consumer, ")


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path, capsys: Capture) -> None:
    """Settings, handlers and plugins; with file, line and column, and no more than six lines each."""
    (tmp_path / "bad.yaml").write_text("app:\n  drain: soon\n  nmae: x\n")
    (tmp_path / "checked_shop.py").write_text(SHOP + "\n@consumer('orders', grup='x')\ndef f(m): ...\n")

    assert ExitCode.CONFIGURATION == main.run(["check", "checked_shop.py", "-c", "bad.yaml"])

    first, second, third, last = capsys.readouterr().out.splitlines()
    assert first.startswith("bad.yaml:2:3: app.drain: ")
    assert second.startswith("bad.yaml:3:3: unknown key 'nmae' in app; did you mean 'name'?")
    assert third.startswith(f"{tmp_path}/checked_shop.py:7: consumer 'f': unknown option 'grup'")
    assert "check: 3 mistakes" == last


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("consumers: {billing: {allocation: avering}}", "no strategy 'avering'; did you mean 'averaging'?"),
        ("consumers: {biling: {}}", "consumers.biling: no consumer is in this group; did you mean 'billing'?"),
        ("plugins: {settings: {audti: {}}}", "plugins.settings: no plugin 'audti' is installed; did you mean 'audit'?"),
        ("plugins: {local: [no.such]}", "plugin 'such' (no.such) cannot be loaded"),
        ("plugins: {settings: {audit: {flush_lines: 0}}}", "plugins.settings.audit.flush_lines: expected"),
    ],
)
def test_what_only_shows_between_parts_is_found_too(tmp_path: Path, text: str, reason: str, capsys: Capture) -> None:
    (tmp_path / "framework-app.yaml").write_text(text)

    assert ExitCode.CONFIGURATION == main.run(["check", "checked_shop.py"])

    mistake, last = capsys.readouterr().out.splitlines()
    assert mistake.startswith("framework-app.yaml:1:")
    assert reason in mistake
    assert "check: 1 mistake" == last


def test_what_works_and_should_not_stay_is_a_warning(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "framework-app.yaml").write_text("cluster: {tls: {enabled: true, verify: false}}")

    assert ExitCode.CLEAN == main.run(["check", "checked_shop.py"])
    assert "warning: cluster.tls.verify is false" in capsys.readouterr().out


def test_plugins_are_listed_with_source_and_hooks(capsys: Capture) -> None:
    assert ExitCode.CLEAN == main.run(["plugins", "--json"])

    listed = {each["name"]: each for each in map(json.loads, capsys.readouterr().out.splitlines())}
    assert {"averaging", "circle", "audit"} <= set(listed)
    assert ("built in", ["register_allocation_strategies"]) == (listed["circle"]["source"], listed["circle"]["hooks"])

    assert ExitCode.CLEAN == main.run(["plugins"])
    shown = capsys.readouterr().out
    assert "averaging        built in: register_allocation_strategies\n" in shown
    assert "app_stopping: " in shown
    ordered = [each["places"]["app_stopping"] for each in listed.values() if "app_stopping" in each["places"]]
    assert sorted(ordered) == list(range(1, len(ordered) + 1)), "each has its place"


@pytest.mark.parametrize("line", ["sys.exit(0)", "sys.exit('bye')", "raise BaseException('oh')", "raise GeneratorExit"])
def test_a_plugin_that_leaves_in_a_hook_is_a_mistake_that_names_it(line: str, tmp_path: Path, capsys: Capture) -> None:
    """`check` printed nothing and ended with 0, as the plugin said."""
    name = f"leaving_{sum(line.encode())}"
    (tmp_path / f"{name}.py").write_text(
        "import sys\nfrom framework.hooks import hookimpl\n\n\nclass Leaves:\n"
        f"    @hookimpl\n    def register_expiry_policies(self):\n        {line}\n"
    )

    arguments = ["checked_shop.py", "--set", f"plugins.local=[{name}]"]
    assert ExitCode.CONFIGURATION == main.run(["check", *arguments])
    assert f"plugin {name!r}: register_expiry_policies failed: " in capsys.readouterr().out
    sys.modules.pop(name, None)


def test_json_is_a_line_per_error_and_warning_with_its_id(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "bad.yaml").write_text("app:\n  nmae: x\ncluster: {tls: {enabled: true, verify: false}}\n")

    assert ExitCode.CONFIGURATION == main.run(["check", "checked_shop.py", "-c", "bad.yaml", "--json"])
    said = capsys.readouterr()
    unsafe = "cluster.tls.verify is false: any certificate is trusted, so others can read the traffic"
    assert [
        {
            "error": "bad.yaml:2:3: unknown key 'nmae' in app; did you mean 'name'?",
            "id": "FA-S001",
            "place": "bad.yaml:2:3",
        },
        {"warning": unsafe, "id": "FA-U107", "place": None},
    ] == [json.loads(line) for line in said.out.splitlines()]
    assert "" == said.err


def test_a_warning_of_the_settings_has_its_id(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "open.yaml").write_text("cluster: {tls: {enabled: true, verify: false}}\n")

    assert ExitCode.CLEAN == main.run(["check", "checked_shop.py", "-c", "open.yaml"])
    warning, last = capsys.readouterr().out.splitlines()
    unsafe = "cluster.tls.verify is false: any certificate is trusted, so others can read the traffic"
    assert f"warning: {unsafe} [FA-U107]" == warning
    assert last.startswith("check: ok, ")
    assert ExitCode.CLEAN == main.run(["check", "checked_shop.py", "--json"])
    assert "" == capsys.readouterr().out
