"""The command line's manners: one line a mistake, the nearest right name, and an exit code that means something."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from framework import __version__
from framework.cli import main
from framework.cli.exit_codes import ExitCode
from framework.errors import (
    BrokerUnreachable,
    ConfigurationError,
    ConfigurationMistakes,
    FrameworkError,
    RequestTimedOut,
    StoreError,
)

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["rum"], "there is no command 'rum'; did you mean 'run'?"),
        (["zzz"], "there is no command 'zzz'; there are: run, dev"),
        (["run", "--worker", "3"], "there is no option '--worker'; did you mean '--workers'?"),
        (["run", "--worker=3"], "there is no option '--worker'; did you mean '--workers'?"),
        (["run", "a", "b"], "there is no option 'b'"),
        (["run", "--workers", "0"], "'0' is not a whole number from 1 to 256"),
        (["run", "--workers", "many"], "'many' is not a whole number from 1 to 256"),
        (["run", "--for", "3"], "3 of what? Write a unit: 3s"),
        (["run", "--until-idle", "3"], "3 of what?"),
        (["run", "--wait-broker", "soon"], "'soon' is not a duration"),
        (["broker"], "one of the arguments --data --memory is required"),
        (["broker", "--memory", "--data", "x"], "not allowed with argument"),
        (["broker", "--memory", "--port", "66000"], "'66000' is not a whole number from 0 to 65535"),
        (["broker", "--memory", "--brokers", "17"], "'17' is not a whole number from 1 to 16"),
        (["broker", "--memory", "--delay-levels", "1x"], "'1x' is not a duration"),
        (["broker", "--memory", "--delay-levels", " "], "write durations with spaces between"),
    ],
)
def test_wrong_usage_is_one_line_and_2(arguments: list[str], complaint: str, capsys: Capture) -> None:
    code = main.run(arguments)

    shown = capsys.readouterr()
    assert ExitCode.USAGE == code
    assert complaint in shown.err
    assert 1 == shown.err.count("\n")
    assert "" == shown.out


@pytest.mark.parametrize("command", sorted(main.COMMANDS))
def test_every_command_has_help(command: str, capsys: Capture) -> None:
    assert ExitCode.CLEAN == main.run([command, "--help"])

    shown = capsys.readouterr().out
    assert f"usage: framework-app {command}" in shown
    assert "--debug" in shown


def test_help_names_the_commands_and_shows_examples(capsys: Capture) -> None:
    assert ExitCode.CLEAN == main.run(["--help"])

    shown = capsys.readouterr().out
    for name, summary in main.COMMANDS.items():
        assert name in shown
        assert summary in shown
    assert "framework-app dev example_app" in shown


def test_the_version_is_the_package_s(capsys: Capture) -> None:
    assert ExitCode.CLEAN == main.run(["--version"])
    assert f"framework-app {__version__}\n" == capsys.readouterr().out


def failing(error: BaseException) -> Callable[[str], object]:
    """Stands for a command module."""

    def execute(arguments: object) -> int:
        raise error

    return lambda name: SimpleNamespace(__doc__="", add_options=lambda parser: None, execute=execute)


@pytest.mark.parametrize(
    ("error", "code", "shown"),
    [
        (ConfigurationError("bad", place="f.yaml:1:2"), 78, "error: f.yaml:1:2: bad\n"),
        (ConfigurationMistakes([ConfigurationError("a"), ConfigurationError("b")]), 78, "error: a\nerror: b\n"),
        (BrokerUnreachable("nobody at 127.0.0.1:1"), 69, "error: nobody at 127.0.0.1:1\n"),
        (RequestTimedOut("slow"), 69, "error: slow\n"),
        (StoreError("folder is taken"), 73, "error: folder is taken\n"),
        (OSError(98, "Address already in use"), 73, "error: [Errno 98] Address already in use\n"),
        (FrameworkError("other"), 1, "error: other\n"),
        (AssertionError(), 1, "error: AssertionError\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_error_is_a_line_and_a_code(
    error: BaseException, code: int, shown: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "import_module", failing(error))

    assert code == main.run(["run"])
    assert shown == capsys.readouterr().err


def test_a_traceback_is_for_those_who_ask(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "import_module", failing(FrameworkError("other")))

    main.run(["run", "--debug"])

    assert "Traceback" in capsys.readouterr().err


def test_the_exit_codes_are_the_contract_s() -> None:
    """HUNG is said by one worker to its parent, which starts another; no user's command ends with it."""
    assert [0, 1, 2, 69, 73, 75, 78, 130] == [code.value for code in ExitCode if code is not ExitCode.HUNG]
    assert 70 == ExitCode.HUNG.value
