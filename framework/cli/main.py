"""`framework-app`: finds the command, runs it, and turns every error into one line and an exit code.

Knows the commands by name only; each is imported when it is called. Tracebacks need `--debug`.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from framework import __version__
from framework.cli import entry, output
from framework.cli.exit_codes import ExitCode
from framework.cli.shown import explained
from framework.errors import ConfigurationError, nearest, shorten
from framework.harmless import escaped
from framework.model.contracts import COMMAND_GROUPS, COMMANDS
from framework.runtime.logs import streams

_DESCRIPTION = "Consume Apache RocketMQ in Python.\n\n" + "\n".join(
    f"{title}\n" + "".join(f"  {name:<10}{text}\n" for name, text in commands.items())
    for title, commands in COMMAND_GROUPS.items()
)
_EXAMPLES = """\
begin with:
  framework-app new app order_desk     a folder with a handler, settings and tests
  framework-app dev orders.py          your first handler; no broker is needed
`framework-app COMMAND --help` shows a command's options, with examples.
"""
OF_RUNNING = frozenset({"health", "stacks", "top", "snapshot", "pause", "resume", "resize"})
"""Commands that ask an application which runs, and no broker."""
PLACES = frozenset({"--from", "--to", "--since"})
"""Options whose value may be `-2h`."""
LENGTHS = frozenset({"--delay", "--at", "--for", "--every", "--stuck-after", "--rate"})
"""Options whose value is wrong where it is `-2h`, which their error says."""


class CommandParser(argparse.ArgumentParser):
    """argparse with the nearest right name, and without taking `--worker` for `--workers`."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # handed through
        self._is_json = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        self._is_json = self._is_json or "--json" in (args or ())
        if args and (wrong := _no_word(args, self.prog)):
            self.error(wrong)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        if message.endswith("expected one argument"):
            option = message.split(": ", maxsplit=1)[0].rpartition("/")[2].removeprefix("argument ")
            message += f"; write {option}=VALUE where it begins with '-'"
        text = f"{self.prog}: {escaped(message)}; see {self.prog} --help"
        sys.stderr.write(explained.usage(text, as_json=self._is_json))
        raise SystemExit(ExitCode.USAGE)

    def known_options(self) -> list[str]:
        return [option for action in self._actions for option in action.option_strings if option.startswith("--")]


def _no_word(words: Sequence[str], before: str) -> str:
    """What is wrong with a word, whatever it stands for. A shell writes an empty one for a variable that is not set: a
    command that took it for "all", or for a default, would do something else than was meant.
    """
    for word in () if "--child" in words else words:
        if not word or (word.startswith("--") and word.find("=") == len(word) - 1):
            what = f"the word after {before}" if not word else f"the value of {word[:-1]}"
            return f"{what} is empty; is a variable of the shell not set?"
        if not word.isascii() and word.encode(errors="replace").decode() != word:
            return f"{shorten(word)} is not UTF-8"
        before = word
    return ""


def run(argv: Sequence[str] | None = None) -> int:
    """The entry point; answers the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        entry.note_signals(arguments)
        streams.make_sure(is_patient=not entry.drains(arguments))
    try:
        return _told(_run(arguments), arguments)
    except SystemExit as error:  # argparse ends a program by raising
        return error.code if isinstance(error.code, int) else ExitCode.USAGE
    except KeyboardInterrupt:
        return ExitCode.LEFT_AT_ONCE
    except Exception as error:  # noqa: BLE001 - border: the user's eyes
        if "--debug" in arguments:
            traceback.print_exc()
        error = explained.behind(error)
        as_json = "--json" in arguments and "--plain-errors" not in arguments
        if "--tells" in arguments:  # its parent says it: once, where its siblings have the same
            output.say(output.mistake_event(explained.text_of(error, as_json=as_json)))
            return explained.exit_code(error)
        return explained.say(error, as_json=as_json)


def _told(code: int, arguments: list[str]) -> int:
    """The code, or a failure where results were lost: a script would take what it got for all that there is."""
    lost = None if entry.drains(arguments) else streams.not_written()
    if lost is None:
        return code
    return code or explained.say(ResultLost(f"the result was not written: {lost}"), as_json="--json" in arguments)


class ResultLost(Exception):
    """Stdout took less than there was to say."""

    id = "FA-U007"


def _run(arguments: list[str]) -> int:
    parser = CommandParser(prog="framework-app", description=_DESCRIPTION, epilog=_EXAMPLES)
    parser.add_argument("--version", action="version", version=f"framework-app {__version__}")
    parser.usage = "framework-app COMMAND [options]"
    if not arguments:
        parser.print_help(sys.stderr)
        return ExitCode.USAGE
    if arguments[0].startswith("-"):
        _parsed(parser, arguments)
    name = arguments[0]
    if name not in COMMANDS:
        return _of_a_plugin(name, arguments[1:], parser)
    module = import_module(f"framework.cli.{'live' if name in OF_RUNNING else 'commands'}.{name}")
    command = _command(name, module.__doc__)
    command.epilog = getattr(module, "EXAMPLES", None)
    module.add_options(command)
    parsed = _parsed(command, _joined(arguments[1:]))
    try:
        code: int = module.execute(parsed)
    except explained.CommandRefused as refusal:
        text = f"framework-app {name}: {refusal}"
        sys.stderr.write(explained.usage(text, as_json=getattr(parsed, "json", False), id_=refusal.id))
        return refusal.code
    except ConfigurationError as error:
        hidden = getattr(parsed, "hidden", None)
        raise (error if hidden is None else hidden.masked(error)).with_traceback(error.__traceback__) from None
    return code


def _command(name: str, description: str | None) -> CommandParser:
    command = CommandParser(prog=f"framework-app {name}", description=(description or "").strip())
    command.add_argument("--debug", action="store_true", help="show tracebacks, and log at level debug")
    return command


def _parsed(command: CommandParser, arguments: list[str]) -> argparse.Namespace:
    parsed: argparse.Namespace
    parsed, unknown = command.parse_known_args(arguments)
    if unknown and not any(word.startswith("-") and word != "-" for word in unknown):
        # `send T --ndjson -`: argparse gives an optional word no second chance behind an option.
        parsed, unknown = command.parse_known_intermixed_args(arguments)
    if unknown:
        command.error(_strange(unknown, command.known_options()))
    return parsed


def _strange(words: list[str], known: list[str]) -> str:
    """What is wrong with words that the parser has no place for."""
    option = next((word.partition("=")[0] for word in words if word.startswith("-") and word != "-"), None)
    if option is None:
        return f"one word too many: {shorten(words[0])}; quote a value that has spaces"
    if option in known:
        return f"{option} stands behind --, where words are values; write it before"
    return f"there is no option {shorten(option)}{nearest(option, known)}"


def _of_a_plugin(name: str, arguments: list[str], parser: CommandParser) -> int:
    """A command that is none of ours: the settings say which plugins there are, and one of those may have it."""
    from framework.cli import plugin_commands

    command = _command(name, None)
    plugin_commands.add_options(command)
    settings, host = plugin_commands.loaded(arguments)
    if name not in host.commands:
        for mistake in host.mistakes:
            output.tell(f"error: {explained.with_id(mistake)}")
        parser.error(f"there is no command {name!r}{nearest(name, {**COMMANDS, **host.commands})}")
    plugin, found = host.commands[name]
    plugin_commands.prepare(plugin, name, found, command)
    return plugin_commands.execute(plugin, name, found, _parsed(command, arguments), settings)


def _joined(arguments: list[str]) -> list[str]:
    """`--until-idle APP`: the option's value may be left out, so a word that is no duration is not its value.
    `--from -2h`: the value of such an option may begin as an option does.
    """
    joined: list[str] = []
    for argument in arguments:
        is_past = argument.startswith("-") and argument[1:2].isdigit()
        if joined and ((joined[-1] in PLACES and argument.startswith("-")) or (joined[-1] in LENGTHS and is_past)):
            joined[-1] += f"={argument}"
        elif joined and joined[-1] == "--until-idle" and not argument[:1].isdigit():
            joined[-1:] = ["--until-idle=2s", argument]
        else:
            joined.append(argument)
    if joined[-1:] == ["--until-idle"]:
        joined[-1] = "--until-idle=2s"
    return joined
