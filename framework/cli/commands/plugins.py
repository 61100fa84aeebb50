"""List what is loaded, where it comes from, and which hooks it has, in calling order.

A plugin has all rights of the process: what is installed and not blocked is loaded; `plugins.only` pins the list.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from framework.cli import options, output
from framework.cli.exit_codes import ExitCode


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_application(parser)
    parser.add_argument("--json", action="store_true", help="one plugin a line, for programs")


def execute(arguments: argparse.Namespace) -> int:
    from framework.hooks.host import PluginHost
    from framework.runtime import logs
    from framework.runtime.collect import importable
    from framework.settings.schema import AppSettings, Logging

    settings = options.loaded(arguments).settings
    logs.configure(AppSettings(logging=Logging(level="debug" if arguments.debug else "warning")))
    importable(Path.cwd())  # plugins of the application lie beside its settings
    host = PluginHost(settings.plugins, settings)
    width = max(len(each.name) for each in host.plugins)
    for each in host.plugins:
        if arguments.json:
            output.say(json.dumps({"name": each.name, "source": each.source, "hooks": list(each.hooks)}))
        else:
            output.say(f"{each.name:<{width}}  {each.source}: {', '.join(each.hooks)}")
    return ExitCode.CLEAN
