"""Show how far groups are behind, in messages and in time. Reads only.

Without GROUP: a line for each group. With it: a line for each queue, with the member that has it. A broker that does
not answer, or was there before and is not any more, is named on stderr; what it would have said is shown as unknown,
never as 0, and the code is 1.
"""

from __future__ import annotations

import argparse
import sys
from threading import Event
from typing import TYPE_CHECKING, Any

from framework.cli import connect, options, output, table
from framework.cli.exit_codes import ExitCode
from framework.cli.progress import ProgressLine
from framework.errors import shorten
from framework.mistakes import UsageWrong

if TYPE_CHECKING:
    from framework.admin.cluster import Admin
    from framework.admin.positions import Positions

EXAMPLES = """\
examples:
  framework-app lag
  framework-app lag billing
  framework-app lag billing --watch
  framework-app lag billing --fail-above 10000    exits with 1 above that, or where the lag is unknown; for scripts
  framework-app lag --forget broker-b             that broker is gone for good, so it is no longer missed
"""
WATCH_SECONDS = 2.0
QUEUES = (
    *table.PLACE,
    table.Column("OFFSET", "offset", table.count, is_number=True),
    table.Column("END", "end", table.count, is_number=True),
    table.Column("LAG", "lag", table.count, is_number=True),
    table.Column("BEHIND", "lag_s", table.age, is_number=True),
    table.Column("OWNER", "owner"),
)
GROUPS = (
    table.Column("GROUP", "group"),
    table.Column("MEMBERS", "members", table.count, is_number=True),
    table.Column("QUEUES", "queues", table.count, is_number=True),
    table.Column("LAG", "lag", table.count, is_number=True),
    table.Column("BEHIND", "lag_s", table.age, is_number=True),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", nargs="?", help="one group, queue by queue; else all groups")
    parser.add_argument("--watch", action="store_true", help="again each two seconds, until Ctrl-C")
    parser.add_argument(
        "--fail-above",
        metavar="N",
        type=options.number(0, 10**18),
        help="exit with 1 where a group's lag is above N messages or unknown",
    )
    parser.add_argument(
        "--forget", metavar="BROKER", help="do not miss this broker any more: it was taken away for good"
    )
    connect.add_cluster(parser)


def execute(arguments: argparse.Namespace) -> int:
    with connect.admin(arguments) as admin:
        if arguments.forget is not None and not admin.memory.forget(arguments.forget):
            known = ", ".join(sorted(admin.memory.brokers)) or "none"
            raise UsageWrong(f"--forget {shorten(arguments.forget)}: no such broker was seen; there are: {known}")
        while True:
            admin.look_again()
            found, failed = _look(admin, arguments.group, with_owners=arguments.json)
            _show(admin, found, failed, arguments)
            if not arguments.watch:
                code = _verdict(admin, found, arguments.fail_above)
                return ExitCode.FAILED if failed else code
            Event().wait(WATCH_SECONDS)
            if output.is_unheard():
                return ExitCode.CLEAN


def _look(admin: Admin, group: str | None, *, with_owners: bool) -> tuple[list[Positions], dict[str, str]]:
    return ([of_group(admin, group)], {}) if group is not None else of_all(admin, with_owners=with_owners)


def of_all(admin: Admin, *, with_owners: bool = False) -> tuple[list[Positions], dict[str, str]]:
    """Where every group is, and the brokers that do not say which groups they have, with the reason.

    Owners cost a question to each member of each group, so only `--json` asks. A silent member is asked once.
    """
    from framework.admin.groups import all_groups
    from framework.admin.positions import positions

    names, failed = all_groups(admin)
    progress = ProgressLine("asking")
    found: list[Positions] = []
    silent: dict[str, str] = {}
    try:
        for name in names:
            progress.advance(len(found), len(names))
            found.append(positions(admin, name, with_members=with_owners, silent=silent))
    finally:
        progress.clear()
    return found, failed


def of_group(admin: Admin, group: str) -> Positions:
    """Where one group is. ConfigurationError where no broker has ever heard of it: the name is a mistake."""
    from framework.admin.groups import check_known
    from framework.admin.positions import positions

    found = positions(admin, admin.wrapped(group))
    if found.is_nobody:
        check_known(admin, found.group)
    return found


def _show(admin: Admin, found: list[Positions], failed: dict[str, str], arguments: argparse.Namespace) -> None:
    if arguments.watch and table.has_colour():
        sys.stdout.write("\x1b[H\x1b[2J")
    if arguments.json:
        table.write_json(row for each in found for row in queue_rows(admin, each))
    elif arguments.group is None:
        output.say(said_of_all(found))
        table.write(GROUPS, [_sum(admin, each) for each in found])
    else:
        output.say(said(admin, found[0]))
        table.write(QUEUES, queue_rows(admin, found[0]))
    connect.say_unknown({**failed, **{who: reason for each in found for who, reason in each.unknown.items()}})


def queue_rows(admin: Admin, found: Positions) -> list[dict[str, Any]]:
    """A group's queues with the fields of the JSON."""
    return [
        {
            "group": admin.unwrapped(found.group),
            "topic": admin.unwrapped(row.queue.topic),
            "broker": row.queue.broker,
            "queue": row.queue.number,
            "offset": row.offset,
            "end": row.end,
            "lag": row.lag,
            "lag_s": row.lag_s,
            "owner": row.owner,
        }
        for row in found.rows
    ]


def _sum(admin: Admin, found: Positions) -> dict[str, Any]:
    return {
        "group": admin.unwrapped(found.group),
        "members": len(found.members.members),
        "queues": len(found.rows),
        "lag": found.lag,
        "lag_s": found.lag_s,
    }


def said_of_all(found: list[Positions]) -> str:
    """The verdict on several groups, in a line."""
    lags = [each.lag for each in found if each.lag]
    unknown = sum(each.lag is None for each in found)
    behind = f"{len(lags)} behind, by {table.some(sum(lags), 'message')}" if lags else "none behind"
    told = f"{table.some(len(found), 'group')}: {behind}" if found else "no group"
    return f"{told}; of {unknown} the lag is not known in full" if unknown else told


def said(admin: Admin, found: Positions) -> str:
    """The verdict, in a line: what matters before any number of a queue."""
    name = admin.unwrapped(found.group)
    if found.is_nobody:
        return f"{name}: no member, and no offset stored"
    who = f"{len(found.members.members)} members" if len(found.members.members) != 1 else "1 member"
    if found.lag is None:
        return f"{name}: the lag is not known in full; {who}"
    if not found.lag:
        return f"{name}: up to date; {who}"
    behind = f", the oldest stored {table.age(found.lag_s)} ago" if found.lag_s is not None else ""
    return f"{name}: {table.some(found.lag, 'message')} behind{behind}; {who}"


def _verdict(admin: Admin, found: list[Positions], limit: int | None) -> ExitCode:
    above = [] if limit is None else [each for each in found if each.lag is None or each.lag > limit]
    for each in above:
        lag = "not known" if each.lag is None else table.count(each.lag)
        sys.stderr.write(
            f"above: {admin.unwrapped(each.group)}: lag is {lag}; the limit is {table.count(limit or 0)}\n"
        )
    return ExitCode.FAILED if above or any(each.unserved for each in found) else ExitCode.CLEAN
