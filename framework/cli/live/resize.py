"""Change how many handlers of a group run at once in each process of a running application. Changes the process.

Handlers that run finish, and count. It lasts until the next `resize`, or until the process ends: a restart does what
the settings say (consumers.GROUP.concurrency).
"""

from __future__ import annotations

import argparse

from framework.cli import options
from framework.cli.live import changing
from framework.cli.live.changing import Picture
from framework.core.limits import CONCURRENCY_MAX

EXAMPLES = """\
examples:
  framework-app resize billing 40 --dry-run
  framework-app resize billing 40
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    changing.add_options(parser)
    parser.add_argument(
        "concurrency", metavar="N", type=options.number(1, CONCURRENCY_MAX), help="handlers at once in each process"
    )


def execute(arguments: argparse.Namespace) -> int:
    to = int(arguments.concurrency)

    def meaning(groups: list[Picture]) -> str:
        now = sorted({int(each["concurrency"]) for each in groups})
        return f"from {' or '.join(map(str, now))} to {to} handlers at once in each; {changing.outlook(groups)}"

    return changing.execute(arguments, "resize", meaning, to=to)
