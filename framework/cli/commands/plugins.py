"""List the loaded plugins, their sources and their hooks; then the order of calls for each hook, the commands of
plugins, and errors, with which a start would exit with 78.

A plugin has all rights of the process. Installed plugins that are not blocked are loaded; `plugins.only` pins the list.
"""

from __future__ import annotations

import argparse
import json

from framework.cli import options, output
from framework.cli.exit_codes import ExitCode
from framework.cli.shown import explained


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_application(parser)
    parser.add_argument("--json", action="store_true", help="JSON on stdout, one plugin per line")


def execute(arguments: argparse.Namespace) -> int:
    if arguments.app:
        from framework.runtime.plans import collect

        collect.make_sure(arguments.app)
    host = options.plugins_of(options.loaded(arguments).settings, is_debug=arguments.debug)
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
            first_line = (command.__doc__ or "").strip().partition("\n")[0]
            output.say(f"framework-app {name}  of {plugin}: {first_line}")
    for mistake in host.mistakes:
        output.say(
            json.dumps({"mistake": str(mistake), "id": mistake.id})
            if arguments.json
            else f"wrong: {explained.with_id(mistake)}"
        )
    return ExitCode.CONFIGURATION if host.mistakes else ExitCode.CLEAN
