"""Commands that plugins bring: found through the settings, run with the options that settings have everywhere."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NoReturn

from framework.cli import options
from framework.cli.exit_codes import ExitCode
from framework.cli.shown.explained import PLUGIN_FAILED
from framework.errors import FrameworkError, shorten
from framework.mistakes import OfferWrong

_CODE_MAX = 255  # what a process can end with

if TYPE_CHECKING:
    from framework.hooks.host import PluginHost
    from framework.model.contracts import Command
    from framework.settings.schema import AppSettings


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those that say which settings hold."""
    options.add_settings(parser)


def loaded(arguments: list[str]) -> tuple[AppSettings, PluginHost]:
    """The settings that this command line means, and the plugins that they name; what is wrong with one is no matter
    for the commands of others. Raises ConfigurationMistakes for settings.
    """
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--debug", action="store_true")
    add_options(first)
    known, _ = first.parse_known_args(arguments)
    settings = options.loaded(known).settings
    return settings, options.plugins_of(settings, is_debug=known.debug)


def prepare(plugin: str, name: str, found: Command, command: argparse.ArgumentParser) -> None:
    """Have the command name its options; ConfigurationError for whatever it raises."""
    from framework.hooks.failures import plugin_failure

    try:
        command.description = (found.__doc__ or "").strip()
        found.add_options(command)
    except BaseException as error:
        plugin_failure(error)
        reason = f"its options cannot be added: {type(error).__name__}: {error}"
        raise OfferWrong(f"plugin {plugin!r}: command {name!r}: {reason}") from error


def execute(plugin: str, name: str, found: Command, parsed: argparse.Namespace, settings: AppSettings) -> int:
    """Do it; the exit code. What is none, or is raised, is named with the plugin."""
    from framework.hooks.failures import discard, plugin_failure

    def failed(reason: str, error: BaseException | None = None) -> NoReturn:
        raise CommandFailed(f"plugin {plugin!r}: command {name!r}: {reason}") from error

    answer: object  # a plugin may have said anything
    try:
        answer = found.execute(parsed, settings)
    except (FrameworkError, OSError):
        raise  # which say what it was about, and have exit codes of their own
    except SystemExit as error:
        plugin_failure(error)
        answer = ExitCode.CLEAN if error.code is None else error.code
        if isinstance(answer, str):
            failed(answer, error)
    except BaseException as error:  # noqa: BLE001 - border: a plugin's
        plugin_failure(error)
        failed(f"{type(error).__name__}: {error}", error)
    if not isinstance(answer, int) or isinstance(answer, bool) or not 0 <= answer <= _CODE_MAX:
        discard(answer)
        failed(f"execute() answered {shorten(answer)}; answer the exit code, a number from 0 to {_CODE_MAX}")
    return answer


class CommandFailed(Exception):
    """A plugin's command, which did not do what it is there for."""

    id = PLUGIN_FAILED
