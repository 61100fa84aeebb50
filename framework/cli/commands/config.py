"""Say what the settings come to, or which there are; connects to nothing.

`explain` shows each value and where it came from, secrets as stars. `schema` prints the JSON Schema of all settings,
those of installed and local plugins among them, with which an editor completes a settings file: keep it as a file, and
name that in the first line of framework-app.yaml, `# yaml-language-server: $schema=settings.schema.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from framework.cli import options, output
from framework.cli.exit_codes import ExitCode
from framework.errors import Findings

if TYPE_CHECKING:
    from framework.hooks.host import PluginHost
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
    rows = explained(settings, _plugins(settings, is_debug=arguments.debug).models)
    wanted = [row for row in rows if not (arguments.written and row.place == DEFAULT)]
    left = max((len(f"{row.name}: {row.value}") for row in wanted if len(row.value) <= 40), default=0)
    for row in wanted:
        output.say(f"{f'{row.name}: {row.value}':<{left}}  # {row.place}")
    return ExitCode.CLEAN


def _plugins(settings: AppSettings, *, is_debug: bool) -> PluginHost:
    """They say which settings they have, and which of those are secret; what is wrong with one is `check`'s affair."""
    from framework.hooks.host import PluginHost
    from framework.runtime.build.collect import importable
    from framework.runtime.logs import setup
    from framework.settings.schema import LoggingSettings

    logging = LoggingSettings(level="debug" if is_debug else "warning")
    setup.configure(settings.model_copy(update={"logging": logging}))
    importable(Path.cwd())  # plugins of the application lie beside its settings
    return PluginHost(settings.plugins, settings, tolerant=True)


def _schema(arguments: argparse.Namespace) -> int:
    from framework.settings.json_schema import json_schema

    if arguments.written:
        sys.stderr.write("framework-app config schema: it says what may be written; leave out --written\n")
        return ExitCode.USAGE
    findings = Findings()  # a file that is being written is often wrong just now, and names its plugins all the same
    settings = options.gathered(arguments, findings).settings
    host = _plugins(settings, is_debug=arguments.debug)
    unknown = [mistake for mistake in host.mistakes if "cannot be loaded" in str(mistake)]
    for mistake in unknown:
        sys.stderr.write(f"left out: {mistake}\n")
    output.say(json.dumps(json_schema(host.models), indent=2))
    return ExitCode.CLEAN
