"""Let a paused group of a running application go on where it stopped. Changes the process."""

from __future__ import annotations

import argparse

from framework.cli.live import changing
from framework.cli.live.changing import Picture

EXAMPLES = """\
examples:
  framework-app resume billing
  framework-app resume billing --yes --json
"""
add_options = changing.add_options


def execute(arguments: argparse.Namespace) -> int:
    return changing.execute(arguments, "resume", _meaning)


def _meaning(groups: list[Picture]) -> str:
    if not any(each["is_paused"] for each in groups):
        return "it is not paused"
    return f"handlers start again; {changing.outlook(groups)}"
