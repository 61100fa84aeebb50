"""List what is loaded, where it comes from, and which hooks it has; then, hook by hook, whose is called in which order,
the commands that plugins bring, and what is wrong with any of them, which a start would refuse (78).

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
    from framework.runtime.build.collect import importable
    from framework.runtime.logs import setup
    from framework.settings.schema import AppSettings, LoggingSettings

    settings = options.loaded(arguments).settings
    setup.configure(AppSettings(logging=LoggingSettings(level="debug" if arguments.debug else "warning")))
    importable(Path.cwd())  # plugins of the application lie beside its settings
    host = PluginHost(settings.plugins, settings, tolerant=True)
    width = max(len(each.name) for each in host.plugins)
    for each in host.plugins:
        if arguments.json:
            places = {
                hook: host.order[hook].index(each.name) + 1 for hook in each.hooks if each.name in host.order[hook]
            }
            described = {"name": each.name, "source": each.source, "hooks": list(each.hooks), "places": places}
            output.say(json.dumps(described))
        else:
            output.say(f"{each.name:<{width}}  {each.source}: {', '.join(each.hooks)}")
    for hook, names in host.order.items():
        if names and not hook.startswith("register_") and not arguments.json:
            output.say(f"{hook}: {', '.join(names)}")
    for name, (plugin, command) in sorted(host.commands.items()):
        if not arguments.json:
            output.say(f"framework-app {name}  of {plugin}: {first_line(command)}")
    for mistake in host.mistakes:
        output.say(json.dumps({"mistake": str(mistake)}) if arguments.json else f"wrong: {mistake}")
    return ExitCode.CONFIGURATION if host.mistakes else ExitCode.CLEAN


def first_line(command: object) -> str:
    return (command.__doc__ or "").strip().partition("\n")[0]
