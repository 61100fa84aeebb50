"""Look for RocketMQ's usual traps in a cluster and its groups, or in one group. Reads only.

Each finding says what is wrong, where, and the command or setting that mends it. What could not be looked at is listed
as unknown, with the reason. Exits with 1 where a finding is severe: messages are lost, or stand still until somebody
acts.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from framework.cli import connect, options, output, table
from framework.cli.exit_codes import ExitCode
from framework.cli.progress import ProgressLine
from framework.net.real_clock import RealClock

if TYPE_CHECKING:
    from framework.admin.cluster import Admin
    from framework.admin.doctor import Diagnosis

EXAMPLES = """\
examples:
  framework-app doctor                               the brokers, and every group
  framework-app doctor billing
  framework-app doctor billing --topic orders        also before its first start: may it read this topic?
  framework-app doctor billing --stuck-after 2m      where handlers may take a minute
  framework-app doctor --json && echo "nothing severe"
"""
DEFAULT_STUCK = "10s"
UNKNOWN = "unknown"
_PAINT = {"severe": table.alarm, "warning": table.caution}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", nargs="?", help="only this group; else all")
    parser.add_argument(
        "--topic",
        metavar="T",
        action="append",
        default=[],
        dest="topics",
        help="a topic that it should read; repeatable",
    )
    parser.add_argument(
        "--stuck-after", metavar="10s", type=options.duration, default=DEFAULT_STUCK,
        help="look twice, so far apart, at a queue whose first message is that old (default 10s)",
    )  # fmt: skip
    connect.add_cluster(parser)


def execute(arguments: argparse.Namespace) -> int:
    from framework.admin import doctor
    from framework.settings.units import duration_ms

    with connect.admin(arguments) as admin:
        with ProgressLine("looking") as progress:
            found = doctor.diagnose(
                admin,
                RealClock().now_ms,
                group=admin.wrapped(arguments.group) if arguments.group else None,
                topics=[admin.wrapped(topic) for topic in arguments.topics],
                stuck_s=duration_ms(arguments.stuck_after) / 1000,
                advance=progress.advance,
            )
        if arguments.json:
            table.write_json(rows_of(found))
        else:
            _print(arguments, admin, found)
    return ExitCode.FAILED if found.is_severe else ExitCode.CLEAN


def rows_of(found: Diagnosis) -> Iterator[dict[str, Any]]:
    """With the fields of the JSON. What could not be looked at has the severity `unknown`, and no remedy."""
    for each in found.findings:
        yield {"finding": each.what, "where": each.where, "remedy": each.remedy, "severity": each.severity}
    for missing in found.unlooked:
        what = f"{missing.what}: not known: {missing.why}"
        yield {"finding": what, "where": missing.where, "remedy": None, "severity": UNKNOWN}


def _print(arguments: argparse.Namespace, admin: Admin, found: Diagnosis) -> None:
    about = arguments.group or ", ".join(admin.settings.name_servers)
    output.say(table.bold(f"{about}: {verdict(found)}"))
    for each in found.findings:
        output.say("")
        mark = f"{each.severity:<8}"
        output.say(_PAINT.get(each.severity, str)(mark), f" {each.what}")
        output.say(f"  where  {each.where}")
        output.say(f"  remedy {each.remedy}")
    if found.unlooked:
        output.say("")
    for line in unknown_lines(found):
        output.say(f"{UNKNOWN}  {line}")


def verdict(found: Diagnosis) -> str:
    """What matters, in a line; a check that could not be made counts as none that found nothing."""
    count, severe = len(found.findings), sum(each.severity == "severe" for each in found.findings)
    what = f"{count} finding{'s' * (count != 1)}, {severe or 'none'} severe" if count else "nothing found"
    made = f"{found.checks} checks"
    return f"{what}; {made}, {found.in_part} could not be made in full" if found.in_part else f"{what}; {made}"


def unknown_lines(found: Diagnosis) -> list[str]:
    """A line for each place and reason: whoever may ask nothing would else read it ten times."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for each in found.unlooked:
        grouped.setdefault((each.where, each.why), []).append(each.what)
    return [f"{where}: {'; '.join(whats)}: {why}" for (where, why), whats in grouped.items()]
