"""Say what the settings come to: each value, and where it came from. Secrets show as stars; connects to nothing."""

from __future__ import annotations

import argparse

from framework.cli import options, output
from framework.cli.exit_codes import ExitCode


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="WHAT", choices=("explain",), help="explain: each value and its place")
    options.add_application(parser)
    parser.add_argument("--written", action="store_true", help="leave out what is the default")


def execute(arguments: argparse.Namespace) -> int:
    from framework.settings.explain import DEFAULT, explained

    rows = explained(options.loaded(arguments).settings)
    wanted = [row for row in rows if not (arguments.written and row.place == DEFAULT)]
    left = max((len(f"{row.name}: {row.value}") for row in wanted if len(row.value) <= 40), default=0)
    for row in wanted:
        output.say(f"{f'{row.name}: {row.value}':<{left}}  # {row.place}")
    return ExitCode.CLEAN
