"""What is wrong with a command line whatever the command: one line, code 2, and nothing is done."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from framework.cli import main
from framework.cli.exit_codes import ExitCode
from framework.model.contracts import COMMANDS
from tests.docs.words import parser_of

Capture = pytest.CaptureFixture[str]
NEEDED = {"broker": ["--memory"], "reset": ["--to", "latest"]}
VALUES = {"N": "3", "PLACE": "latest"}


def words_of(command: str) -> list[str]:
    """A word for each place that it has, those that may be left out too."""
    actions = [each for each in parser_of(command)._actions if not each.option_strings]
    return [min(each.choices) if each.choices else VALUES.get(str(each.metavar), "x") for each in actions]


def options_of(command: str) -> list[str]:
    """Options with a value."""
    actions = [each for each in parser_of(command)._actions if each.option_strings and each.nargs != 0]
    return [each.option_strings[-1] for each in actions if each.help != argparse.SUPPRESS]


def refused(capsys: Capture, *words: str) -> str:
    assert ExitCode.USAGE == main.run(words)
    shown = capsys.readouterr()
    assert "" == shown.out
    (line,) = shown.err.splitlines()
    assert line.endswith(f"; see framework-app {words[0]} --help [FA-U001]")
    return line.removesuffix(f"; see framework-app {words[0]} --help [FA-U001]")


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"explain"}))  # which takes any number of ids
def test_a_word_too_many_is_called_that(command: str, capsys: Capture) -> None:
    words = words_of(command)
    words = ["serve", "file"] if command == "broker" else words
    line = refused(capsys, command, *words, *NEEDED.get(command, ()), "surplus")

    assert f"framework-app {command}: one word too many: 'surplus'; quote a value that has spaces" == line


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_an_empty_word_is_a_variable_that_is_not_set(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """`doctor "$GROUP"` would look at the whole cluster, and `broker --data "$DIR"` write into the current folder."""
    monkeypatch.chdir(tmp_path)
    why = "is empty; is a variable of the shell not set?"
    places = words_of(command)
    for place in range(len(places)):
        before = places[place - 1] if place else f"framework-app {command}"
        line = refused(capsys, command, *places[:place], "", *places[place + 1 :])
        assert f"framework-app {command}: the word after {before} {why}" == line
    for option in options_of(command):
        line = refused(capsys, command, *places, option, "")
        assert line.startswith(f"framework-app {command}: the word after ")
        assert line.endswith(why)
        if option.startswith("--"):
            line = refused(capsys, command, *places, f"{option}=")
            assert f"framework-app {command}: the value of {option} {why}" == line
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_what_is_no_text_is_refused(command: str, capsys: Capture) -> None:
    """As Python hands it over: a byte that is not UTF-8 is half of a surrogate pair."""
    line = refused(capsys, command, *words_of(command), "--debug", "caf\udce9")

    assert f"framework-app {command}: 'caf\\udce9' is not UTF-8" == line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["send", "orders", "hello", "--tag", "-x"], "argument --tag: expected one argument; write --tag=VALUE"),
        (["run", "-c", "-x"], "argument -c/--config: expected one argument; write --config=VALUE where it"),
        (["dlq", "replay", "billing", "--rate", "-5/s"], "argument --rate: '-5/s' is no rate; write 50/s"),
        (["send", "orders", "--", "-x", "--key", "1"], "--key stands behind --, where words are values;"),
        (["top", "--every", "0ms"], "argument --every: '0ms' is no time"),
        (
            ["dlq", "list", "billing", "--since", "soon"],
            "argument --since: 'soon' is no time; write -2h or ",
        ),
        (["lag", "--fail-above", "inf"], "argument --fail-above: 'inf' is not a whole number"),
        (["resize", "billing", "1e2"], "argument N: '1e2' is not a whole number from 1 to 1024"),
    ],
)
def test_a_value_that_cannot_be_is_named_with_its_option(words: list[str], said: str, capsys: Capture) -> None:
    assert refused(capsys, *words).startswith(f"framework-app {words[0]}: {said}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["send", "orders", "hello", "--property", "a"], "--property 'a': write name=value"),
        (["send", "orders"], "send: give one of BODY, `-` for stdin, and --file FILE"),
        (["explain", "FA-S999"], "there is no id 'FA-S999'; did you mean "),
        (["new", "app", "order desk"], "new app: 'order desk' is no name in Python: begin with a letter, "),
        (["config", "schema", "--written"], "config schema: it says what may be written; leave out --written"),
    ],
)
def test_options_that_do_not_fit_are_usage_too(words: list[str], said: str, capsys: Capture) -> None:
    assert ExitCode.USAGE == main.run(words)
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: {said}")
    assert error.endswith("[FA-U002]")
    assert "hint: framework-app explain FA-U002" == hint


@pytest.mark.parametrize("app", ["x", "x:handler"])
def test_plugins_of_an_application_that_is_not_there(
    app: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)

    assert ExitCode.CONFIGURATION == main.run(["plugins", app])
    hint = "correct the name, or start it in the folder that has the module"
    assert f"error: there is no module 'x'; {hint} [FA-H001]" == capsys.readouterr().err.splitlines()[0]


@pytest.mark.parametrize(
    ("words", "code", "id_"),
    [
        (["run", "--worker"], ExitCode.USAGE, "FA-U001"),
        (["tail", ""], ExitCode.USAGE, "FA-U001"),
        (["send", "orders"], ExitCode.USAGE, "FA-U002"),
        (["dlq", "list", "billing", "ID"], ExitCode.USAGE, "FA-U002"),
        (["reset", "billing", "--to", "latest"], ExitCode.USAGE, "FA-U003"),
        (["dlq", "replay", "billing"], ExitCode.USAGE, "FA-U003"),
        (["pause", "billing"], ExitCode.USAGE, "FA-U003"),
        (["resize", "billing", "3", "--yes", "--socket", "nowhere"], ExitCode.UNREACHABLE, "FA-U004"),
        (["stacks", "--socket", "nowhere"], ExitCode.UNREACHABLE, "FA-U004"),
        (["snapshot", "--socket", "nowhere"], ExitCode.UNREACHABLE, "FA-U004"),
        (["top", "--socket", "nowhere"], ExitCode.UNREACHABLE, "FA-U004"),
        (["lag", "--name-server", "127.0.0.1:1"], ExitCode.UNREACHABLE, "FA-C002"),
        (["tail", "orders", "--sql", "a >> 1", "--name-server", "127.0.0.1:1"], ExitCode.CONFIGURATION, "FA-H012"),
    ],
)
def test_for_a_program_an_error_is_an_object(words: list[str], code: ExitCode, id_: str, capsys: Capture) -> None:
    assert code == main.run([*words, "--json"])
    shown = capsys.readouterr()
    told = json.loads(shown.err)
    assert ("", ["error", "id", "place"], id_) == (shown.out, list(told), told["id"])
