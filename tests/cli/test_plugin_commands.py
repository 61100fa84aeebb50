"""A plugin's command that answers what is no exit code, raises, or has a name that cannot be: named with the plugin."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from framework.cli import main
from framework.cli.exit_codes import ExitCode
from framework.hooks import hookimpl
from framework.hooks.host import PluginHost
from framework.model.contracts import COMMANDS

Capture = pytest.CaptureFixture[str]

PLUGIN = """
import asyncio, sys
from framework.hooks import hookimpl


class Shout:
    def add_options(self, parser):
        {options}

    def execute(self, arguments, settings):
        {execute}


class Acme:
    @hookimpl
    def register_commands(self):
        return {{"shout": Shout()}}
"""


@pytest.fixture
def shout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., int]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "framework-app.yaml").write_text("plugins: {local: [shouting]}\n")

    def run(execute: str, options: str = "pass", *arguments: str) -> int:
        monkeypatch.delitem(sys.modules, "shouting", raising=False)
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
        (tmp_path / "shouting.py").write_text(PLUGIN.format(execute=execute, options=options))
        try:
            return main.run(["shout", *arguments])
        finally:
            sys.dont_write_bytecode = before

    yield run
    sys.modules.pop("shouting", None)
    structlog.reset_defaults()


@pytest.mark.parametrize(
    ("execute", "code"),
    [("return 0", 0), ("return 7", 7), ("sys.exit()", 0), ("sys.exit(0)", 0), ("sys.exit(4)", 4)],
)
def test_an_exit_code_is_what_the_process_ends_with(shout: Callable[..., int], execute: str, code: int) -> None:
    assert code == shout(execute)


@pytest.mark.parametrize(
    ("execute", "reason"),
    [
        ("pass", "execute() answered None; answer the exit code, a number from 0 to 255"),
        ("return 'fine'", "execute() answered 'fine'; answer"),
        ("return True", "execute() answered True; answer"),
        ("return 256", "execute() answered 256; answer"),
        ("return -1", "execute() answered -1; answer"),
        ("return asyncio.sleep(1)", "execute() answered <coroutine object sleep"),
        ("sys.exit('no paper')", "no paper"),
        ("sys.exit(1.5)", "execute() answered 1.5; answer"),
        ("raise BaseException('oh')", "BaseException: oh"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt: "),
        ("raise asyncio.CancelledError", "CancelledError: "),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_what_is_none_is_named_with_the_plugin(
    shout: Callable[..., int], execute: str, reason: str, capsys: Capture
) -> None:
    assert ExitCode.FAILED == shout(execute)

    assert f"error: plugin 'shouting': command 'shout': {reason}" in capsys.readouterr().err


@pytest.mark.parametrize("options", ["sys.exit(0)", "sys.exit('bye')", "parser.add_argument('--set')", "1 / 0"])
def test_so_are_options_that_cannot_be(shout: Callable[..., int], options: str, capsys: Capture) -> None:
    assert ExitCode.CONFIGURATION == shout("return 0", options)

    assert "error: plugin 'shouting': command 'shout': its options cannot be added: " in capsys.readouterr().err


def test_a_wrong_option_and_a_traceback_are_as_ever(shout: Callable[..., int], capsys: Capture) -> None:
    assert ExitCode.USAGE == shout("return 0", "pass", "--loud")
    assert "there is no option '--loud'" in capsys.readouterr().err
    assert ExitCode.FAILED == shout("1 / 0", "pass", "--debug")
    assert "Traceback" in capsys.readouterr().err


class Quiet:
    def add_options(self, parser: object) -> None: ...

    def execute(self, arguments: object, settings: object) -> int:
        return 0


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *[(name, f"framework-app has a command {name!r} of its own") for name in COMMANDS],
        ("", "the command '' has no name"),
        (5, "the command 5 has no name; its name is a text that is not empty"),
        (None, "the command None has no name"),
        ("--loud", "'--loud' is no name for a command"),
        ("two words", "'two words' is no name for a command"),
    ],
)
def test_a_name_that_no_command_can_have_is_refused(name: object, reason: str) -> None:
    class Acme:
        @hookimpl
        def register_commands(self) -> dict[object, Quiet]:
            return {name: Quiet()}

    host = PluginHost(objects={"acme": Acme()}, discover=list, tolerant=True)

    (mistake,) = host.mistakes
    assert str(mistake).startswith(f"plugin 'acme': {reason}")
    assert {} == host.commands


ORDERED = """
from framework.hooks import hookimpl

class Acme:
    @hookimpl{last}
    def app_started(self): ...
    @hookimpl{last}
    def app_stopping(self): ...
    @hookimpl{last}
    def before_consume(self): ...
    @hookimpl{last}
    def after_consume(self): ...
"""


def test_plugins_lists_each_hook_in_the_order_in_which_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """The ends of things are told the other way round."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "framework-app.yaml").write_text("plugins: {local: [called_first, called_last], only: []}\n")
    (tmp_path / "called_first.py").write_text(ORDERED.format(last=""))
    (tmp_path / "called_last.py").write_text(ORDERED.format(last="(trylast=True)"))

    assert ExitCode.CLEAN == main.run(["plugins"])
    listed = capsys.readouterr().out.splitlines()
    assert {"app_started: called_first, called_last", "before_consume: called_first, called_last"} <= {*listed}
    assert {"app_stopping: called_last, called_first", "after_consume: called_last, called_first"} <= {*listed}
    for name in ("called_first", "called_last"):
        sys.modules.pop(name, None)
    structlog.reset_defaults()
