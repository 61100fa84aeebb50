"""Commands that plugins bring: found through the settings, run with the options that settings have everywhere."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from framework.cli import options

if TYPE_CHECKING:
    from framework.hooks.host import PluginHost
    from framework.settings.schema import AppSettings


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those that say which settings hold."""
    options.add_settings(parser)


def loaded(arguments: list[str]) -> tuple[AppSettings, PluginHost]:
    """The settings that this command line means, and the plugins that they name; what is wrong with one is no matter
    for the commands of others. Raises ConfigurationMistakes for settings.
    """
    from framework.hooks.host import PluginHost
    from framework.runtime import logs
    from framework.runtime.collect import importable
    from framework.settings.schema import Logging

    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--debug", action="store_true")
    add_options(first)
    known, _ = first.parse_known_args(arguments)
    settings = options.loaded(known).settings
    for_logs = settings.model_copy(update={"logging": Logging(level="debug" if known.debug else "warning")})
    logs.configure(for_logs)
    importable(Path.cwd())  # plugins of the application lie beside its settings
    host = PluginHost(settings.plugins, settings, tolerant=True)
    logs.configure(for_logs)  # by now the plugins have said which of their settings are secret
    return settings, host
