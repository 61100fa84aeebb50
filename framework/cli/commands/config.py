"""Say what the settings come to, or which there are; connects to nothing.

`explain` shows each value and where it came from, secrets as stars. `schema` prints the JSON Schema of all settings,
with which an editor completes a settings file: keep it as a file, and name that in the first line of
framework-app.yaml, `# yaml-language-server: $schema=settings.schema.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from framework.cli import options, output
from framework.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from framework.settings.schema import AppSettings


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="WHAT", choices=("explain", "schema"), help="explain or schema")
    options.add_application(parser)
    parser.add_argument("--written", action="store_true", help="leave out what is the default")


def execute(arguments: argparse.Namespace) -> int:
    if arguments.what == "schema":
        return _schema(arguments)
    from framework.settings.explain import DEFAULT, explained

    settings = options.loaded(arguments).settings
    if settings.plugins.settings:
        _hear_plugins(settings, is_debug=arguments.debug)
    rows = explained(settings)
    wanted = [row for row in rows if not (arguments.written and row.place == DEFAULT)]
    left = max((len(f"{row.name}: {row.value}") for row in wanted if len(row.value) <= 40), default=0)
    for row in wanted:
        output.say(f"{f'{row.name}: {row.value}':<{left}}  # {row.place}")
    return ExitCode.CLEAN


def _hear_plugins(settings: AppSettings, *, is_debug: bool) -> None:
    """Have the plugins say which of their settings are secret; what is wrong with one is `check`'s affair."""
    from framework.hooks.host import PluginHost
    from framework.runtime import logs
    from framework.runtime.collect import importable
    from framework.settings.schema import Logging

    logging = Logging(level="debug" if is_debug else "warning")
    logs.configure(settings.model_copy(update={"logging": logging}))
    importable(Path.cwd())  # plugins of the application lie beside its settings
    PluginHost(settings.plugins, settings, tolerant=True)


def _schema(arguments: argparse.Namespace) -> int:
    given = [
        name
        for name, value in (
            ("APP", arguments.app), ("--config", arguments.config), ("--overlay", arguments.overlay),
            ("--set", arguments.sets), ("--name-server", arguments.name_server), ("--written", arguments.written),
        )
        if value
    ]  # fmt: skip
    if given:
        what = "the schema is the same for every application"
        sys.stderr.write(f"framework-app config schema: {what}; leave out {', '.join(given)}\n")
        return ExitCode.USAGE
    from framework.settings.json_schema import json_schema

    output.say(json.dumps(json_schema(), indent=2))
    return ExitCode.CLEAN
