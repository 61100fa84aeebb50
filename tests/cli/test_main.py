"""The command line's manners: one line a mistake, the nearest right name, and an exit code that means something."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
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
from framework.model.contracts import COMMAND_GROUPS, COMMANDS

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["rum"], "there is no command 'rum'; did you mean 'run'?; see framework-app --help"),
        (["zzz"], "there is no command 'zzz'; see framework-app --help"),
        (["--hlep"], "there is no option '--hlep'; did you mean '--help'?"),
        (["run", "--worker", "3"], "there is no option '--worker'; did you mean '--workers'?"),
        (["run", "--worker=3"], "there is no option '--worker'; did you mean '--workers'?"),
        (["run", "a", "b"], "one word too many: 'b'; quote a value that has spaces"),
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


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help(command: str, capsys: Capture) -> None:
    assert ExitCode.CLEAN == main.run([command, "--help"])

    shown = capsys.readouterr().out
    assert f"usage: framework-app {command}" in shown
    assert "--debug" in shown


def test_help_is_a_screen_of_groups_and_each_line_says_whether_it_reads_or_writes(capsys: Capture) -> None:
    assert ExitCode.CLEAN == main.run(["--help"])

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 50
    assert [*COMMAND_GROUPS] == [line for line in lines if line in COMMAND_GROUPS]
    for name, text in COMMANDS.items():
        assert f"  {name:<10}{text}" in lines
        assert text.split()[0] in {"reads", "writes", "runs"}
        assert len(text) <= 90


def test_without_a_command_it_shows_its_help_on_stderr_and_is_2(capsys: Capture) -> None:
    assert ExitCode.USAGE == main.run([])

    shown = capsys.readouterr()
    assert "" == shown.out
    assert shown.err.startswith("usage: framework-app COMMAND [options]\n")
    assert "\ndevelop\n  new " in shown.err


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
        (ConfigurationError("bad", place="f.yaml:1:2"), 78, "error: f.yaml:1:2: bad [FA-X002]\n"),
        (
            ConfigurationMistakes([ConfigurationError("a"), ConfigurationError("b")]),
            78,
            "error: a [FA-X002]\nerror: b [FA-X002]\n",
        ),
        (BrokerUnreachable("nobody at 127.0.0.1:1"), 69, "error: nobody at 127.0.0.1:1 [FA-C001]\n"),
        (RequestTimedOut("slow"), 69, "error: slow [FA-C004]\n"),
        (StoreError("folder is taken"), 73, "error: folder is taken [FA-B001]\n"),
        (OSError(98, "Address already in use"), 73, "error: [Errno 98] Address already in use [FA-B002]\n"),
        (FrameworkError("other"), 1, "error: other [FA-X002]\n"),
        (AssertionError(), 1, "error: AssertionError [FA-X001]\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_error_is_a_line_and_a_code(
    error: BaseException, code: int, shown: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "import_module", failing(error))

    assert code == main.run(["run"])
    *errors, hint = capsys.readouterr().err.splitlines(keepends=True) or [""]
    assert shown == "".join(errors)
    assert hint == (f"hint: framework-app explain {shown[-9:-2]}\n" if shown else "")


def test_a_traceback_is_for_those_who_ask(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "import_module", failing(FrameworkError("other")))

    main.run(["run", "--debug"])

    assert "Traceback" in capsys.readouterr().err


def test_the_exit_codes_are_the_contract_s() -> None:
    """HUNG is said by one worker to its parent, which starts another; no user's command ends with it."""
    assert [0, 1, 2, 69, 73, 75, 78, 130] == [code.value for code in ExitCode if code is not ExitCode.HUNG]
    assert 70 == ExitCode.HUNG.value


@pytest.mark.parametrize("words", [("send", "orders", "x", "--delay", "-5s"), ("doctor", "--stuck-after", "-1s")])
def test_a_negative_length_is_said_to_be_none(words: tuple[str, ...]) -> None:
    assert f"{words[-2]}={words[-1]}" == main._joined(list(words))[-1]


def test_top_ends_as_the_others_where_nothing_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.UNREACHABLE == main.run(["top", "--count", "1", "--socket", str(tmp_path / "none")])
    assert capsys.readouterr().err.startswith("framework-app top: no application listens at ")
