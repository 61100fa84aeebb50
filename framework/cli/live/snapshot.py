"""Print the picture of a running application: groups, queues, counts, and what is wrong, as JSON. Reads only.

One object for each process: indented for people, with --json one a line. What is not known is null.
"""

from __future__ import annotations

import argparse
import json

from framework.cli import output
from framework.cli.exit_codes import ExitCode
from framework.cli.live.find import add_target, ask_it
from framework.net.control.asking import named

EXAMPLES = """\
examples:
  framework-app snapshot
  framework-app snapshot --json | jq '.groups[] | {group, lag, running}'
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    add_target(parser)


def execute(arguments: argparse.Namespace) -> int:
    workers = ask_it(arguments, {"ask": "snapshot"})
    silent = [each for each in workers if "snapshot" not in each]
    for each in workers:
        if "snapshot" in each:
            picture = each["snapshot"]
            output.say_lines(output.as_json(picture, indent=None if arguments.json else 2))
    for each in silent:
        reason = str(each.get("error"))
        if arguments.json:
            output.say(json.dumps({"worker": each.get("worker"), "process": each.get("process"), "error": reason}))
        output.tell(f"unknown: {named(each, len(workers))}{reason}")
    return ExitCode.FAILED if silent else ExitCode.CLEAN
