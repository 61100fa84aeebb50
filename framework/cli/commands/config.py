"""Show the settings in effect, or print their JSON Schema; connects to nothing.

`explain` shows each value and where it came from; secrets are shown as stars. `schema` prints the JSON Schema of all
settings, with those of installed and local plugins. An editor completes a settings file with it: write it to a file,
and name that in the first line of framework-app.yaml, `# yaml-language-server: $schema=settings.schema.json`.
"""

from __future__ import annotations

import argparse
import json

from framework.cli import options, output
from framework.cli.exit_codes import ExitCode
from framework.errors import Findings
from framework.mistakes import UsageWrong


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="WHAT", choices=("explain", "schema"), help="explain or schema")
    options.add_application(parser)
    parser.add_argument("--written", action="store_true", help="leave out defaults")


def execute(arguments: argparse.Namespace) -> int:
    if arguments.what == "schema":
        return _schema(arguments)
    from framework.settings.explain import DEFAULT, explained

    settings = options.loaded(arguments).settings
    rows = explained(settings, options.plugins_of(settings, is_debug=arguments.debug).models)
    wanted = [row for row in rows if not (arguments.written and row.place == DEFAULT)]
    left = max((len(f"{row.name}: {row.value}") for row in wanted if len(row.value) <= 40), default=0)
    for row in wanted:
        output.say(f"{f'{row.name}: {row.value}':<{left}}  # {row.place}")
    return ExitCode.CLEAN


def _schema(arguments: argparse.Namespace) -> int:
    from framework.settings.json_schema import json_schema

    if arguments.written:
        raise UsageWrong("config schema: it says what may be written; leave out --written")
    findings = Findings()  # a file that is being written is often wrong just now, and names its plugins all the same
    settings = options.gathered(arguments, findings).settings
    host = options.plugins_of(settings, is_debug=arguments.debug)
    unknown = [mistake for mistake in host.mistakes if "cannot be loaded" in str(mistake)]
    for mistake in unknown:
        output.tell(f"left out: {mistake}")
    output.say_lines(json.dumps(json_schema(host.models), indent=2))
    return ExitCode.CLEAN
