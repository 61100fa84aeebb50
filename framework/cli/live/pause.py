"""Pause a group of a running application: no handler starts and nothing is pulled until `resume`. Changes the process.

Handlers that run finish. The group keeps its queues, so other members do not get them, and its lag grows. The
application stays ready. It lasts until `resume`, or until the process ends: a restart does what the settings say
(consumers.GROUP.paused). With --for it resumes by itself. `groups GROUP`, `top`, `health` and `snapshot` show who
paused it, when, why and until when.
"""

from __future__ import annotations

import argparse

from framework.cli import options
from framework.cli.live import changing
from framework.cli.live.changing import Picture

EXAMPLES = """\
examples:
  framework-app pause billing --dry-run    what it would come to
  framework-app pause billing              asks, then tells every process
  framework-app pause billing --yes --json
  framework-app pause billing --for 10m --reason "bank is down"
"""
REASON_MAX = 500


def add_options(parser: argparse.ArgumentParser) -> None:
    changing.add_options(parser)
    parser.add_argument(
        "--for", dest="length", metavar="10m", type=options.length, help="resume by itself after this time"
    )
    parser.add_argument("--reason", metavar="TEXT", default="", type=_reason, help="why, for those who find it paused")


def _reason(text: str) -> str:
    if len(text) > REASON_MAX:
        raise argparse.ArgumentTypeError(f"{len(text)} signs are too many; write {REASON_MAX} at most")
    return text


def execute(arguments: argparse.Namespace) -> int:
    length = arguments.length

    def meaning(groups: list[Picture]) -> str:
        until = f"for {length}, or until `resume`" if length else "until `resume`"
        so_far = "it is paused already; from now on " if groups and all(each["is_paused"] for each in groups) else ""
        return f"{so_far}no handler starts {until}, and those that run finish; {changing.outlook(groups)}"

    more = {name: text for name, text in (("length", length), ("reason", arguments.reason)) if text}
    return changing.execute(arguments, "pause", meaning, **more)
