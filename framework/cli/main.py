"""`framework-app`: finds the command, runs it, and turns every error into one line and an exit code.

Knows the commands by name only; each is imported when it is called. Tracebacks need `--debug`.
"""

from __future__ import annotations

import argparse
import errno
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from framework import __version__
from framework.cli import entry
from framework.cli.exit_codes import ExitCode
from framework.errors import BrokerUnreachable, ConfigurationError, ConfigurationMistakes, StoreError, nearest
from framework.runtime.logs import streams

COMMANDS = {
    "run": "consume with the handlers of an application",
    "dev": "the same with the built-in broker, a reload at each change, and one line per message",
    "broker": "run the built-in broker, for development and tests",
    "new": "write the folder of a new application or plugin: `new app NAME`, `new plugin NAME`",
    "check": "list all errors in settings, handlers and plugins",
    "config": "show each setting and where it comes from, or print their JSON Schema for editors",
    "plugins": "list the loaded plugins, their sources and their hooks",
    "simulate": "run a whole cluster in virtual time from a seed",
    "topics": "list the topics of a cluster",
    "groups": "list the groups of a cluster, or show one: members, queues, what is wrong",
    "lag": "show how far groups are behind, in messages and in time",
    "send": "send a message to a topic, or one for each line of a file",
    "tail": "show messages of a topic",
    "reset": "set where a group goes on; shows what comes again first, and asks",
    "dlq": "list a group's dead letters by cause, show one, replay or drop them",
}

_DESCRIPTION = "Consume Apache RocketMQ in Python.\n\ncommands:\n" + "\n".join(
    f"  {name:<10}{text}" for name, text in COMMANDS.items()
)
_EXAMPLES = """\
examples:
  framework-app dev example_app                       try it; no broker is needed
  framework-app dev orders.py                         your own first handler
  framework-app new app order_desk                    a folder with a handler, settings and tests
  framework-app check                                 before a deployment; exits with 0 or 78
  framework-app config schema > settings.schema.json  lets editors complete framework-app.yaml
  framework-app config explain --written              what your file, variables and options set
  framework-app run shop --name-server 10.0.0.5:9876  against a cluster
  framework-app run shop --workers 4                  four processes
  framework-app run shop --only billing --set consumers.billing.concurrency=2
  framework-app run shop --until-idle --json          handle what is there, then exit; for scripts
  framework-app run shop --wait-broker 30s            exit with 69 if no broker answers; for CI
  framework-app broker --data ./box --port 9876       a broker that keeps its messages
"""
PLACES = frozenset({"--from", "--to", "--since"})
"""Options whose value may be `-2h`."""


class CommandParser(argparse.ArgumentParser):
    """argparse with the nearest right name, and without taking `--worker` for `--workers`."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # handed through

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {message}; see {self.prog} --help\n")
        raise SystemExit(ExitCode.USAGE)

    def known_options(self) -> list[str]:
        return [option for action in self._actions for option in action.option_strings if option.startswith("--")]


def run(argv: Sequence[str] | None = None) -> int:
    """The entry point; answers the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        entry.note_signals(arguments)
        streams.make_sure()
    try:
        return _run(arguments)
    except SystemExit as error:  # argparse ends a program by raising
        return error.code if isinstance(error.code, int) else ExitCode.USAGE
    except KeyboardInterrupt:
        return ExitCode.LEFT_AT_ONCE
    except Exception as error:  # noqa: BLE001 - border: the user's eyes
        if "--debug" in arguments:
            traceback.print_exc()
        return _explained(error)


def _run(arguments: list[str]) -> int:
    parser = CommandParser(prog="framework-app", description=_DESCRIPTION, epilog=_EXAMPLES)
    parser.add_argument("--version", action="version", version=f"framework-app {__version__}")
    parser.add_argument("command", metavar="COMMAND", help="one of those above")
    if not arguments or arguments[0].startswith("-"):
        parser.parse_args(arguments)
    name = arguments[0]
    if name not in COMMANDS:
        return _of_a_plugin(name, arguments[1:], parser)
    module = import_module(f"framework.cli.commands.{name}")
    command = _command(name, module.__doc__)
    command.epilog = getattr(module, "EXAMPLES", None)
    module.add_options(command)
    parsed = _parsed(command, _joined(arguments[1:]))
    try:
        code: int = module.execute(parsed)
    except ConfigurationError as error:
        hidden = getattr(parsed, "hidden", None)
        raise (error if hidden is None else hidden.masked(error)).with_traceback(error.__traceback__) from None
    return code


def _command(name: str, description: str | None) -> CommandParser:
    command = CommandParser(prog=f"framework-app {name}", description=(description or "").strip())
    command.add_argument("--debug", action="store_true", help="show tracebacks, and log at level debug")
    return command


def _parsed(command: CommandParser, arguments: list[str]) -> argparse.Namespace:
    parsed, unknown = command.parse_known_args(arguments)
    if unknown:
        option = unknown[0].partition("=")[0]
        command.error(f"there is no option {option!r}{nearest(option, command.known_options())}")
    return parsed


def _of_a_plugin(name: str, arguments: list[str], parser: CommandParser) -> int:
    """A command that is none of ours: the settings say which plugins there are, and one of those may have it."""
    from framework.cli import plugin_commands

    command = _command(name, None)
    plugin_commands.add_options(command)
    settings, host = plugin_commands.loaded(arguments)
    if name not in host.commands:
        for mistake in host.mistakes:
            sys.stderr.write(f"error: {mistake}\n")
        known = {**COMMANDS, **host.commands}
        parser.error(f"there is no command {name!r}{nearest(name, known) or '; there are: ' + ', '.join(known)}")
    plugin, found = host.commands[name]
    plugin_commands.prepare(plugin, name, found, command)
    return plugin_commands.execute(plugin, name, found, _parsed(command, arguments), settings)


def _joined(arguments: list[str]) -> list[str]:
    """`--until-idle APP`: the option's value may be left out, so a word that is no duration is not its value.
    `--from -2h`: the value of such an option may begin as an option does.
    """
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] in PLACES and argument.startswith("-"):
            joined[-1] += f"={argument}"
        elif joined and joined[-1] == "--until-idle" and not argument[:1].isdigit():
            joined[-1:] = ["--until-idle=2s", argument]
        else:
            joined.append(argument)
    if joined[-1:] == ["--until-idle"]:
        joined[-1] = "--until-idle=2s"
    return joined


def _explained(error: Exception) -> ExitCode:
    if isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}:
        sys.stderr.write(f"error: {error}; raise the limit (ulimit -n)\n")
        return ExitCode.TAKEN
    mistakes: Sequence[Exception] = error.mistakes if isinstance(error, ConfigurationMistakes) else [error]
    for mistake in mistakes:
        sys.stderr.write(f"error: {str(mistake) or type(mistake).__name__}\n")
    if isinstance(error, ConfigurationError):
        return ExitCode.CONFIGURATION
    if isinstance(error, BrokerUnreachable):
        return ExitCode.UNREACHABLE
    if isinstance(error, StoreError) or (
        isinstance(error, OSError) and error.errno in {errno.EADDRINUSE, errno.EACCES}
    ):
        return ExitCode.TAKEN
    return ExitCode.FAILED
