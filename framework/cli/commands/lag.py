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
from framework.cli.shown import groups as shown
from framework.errors import shorten
from framework.mistakes import UsageWrong
from framework.net.real_clock import RealClock

if TYPE_CHECKING:
    from framework.admin.cluster import Admin
    from framework.admin.delayed import WaitingRetries
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
    table.Column("RETRIES", "retries", table.count, is_number=True),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", nargs="?", help="one group, queue by queue; else all groups")
    parser.add_argument("--all", action="store_true", help="also the groups that remember replays of dead letters")
    parser.add_argument(
        "--watch", action="store_true", help="again each two seconds, until Ctrl-C; exit as the last look"
    )
    parser.add_argument(
        "--fail-above",
        metavar="N",
        type=options.number(0, 10**18),
        help="exit with 1 where a group's lag, with what waits for a retry, is above N messages or unknown",
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
        code = _look(admin, arguments)
        try:
            while arguments.watch and not output.is_unheard():
                Event().wait(WATCH_SECONDS)
                admin.look_again()
                code = _look(admin, arguments)
        except KeyboardInterrupt:
            pass  # the way to end --watch: the code is that of the last whole look
        return code


def _look(admin: Admin, arguments: argparse.Namespace) -> ExitCode:
    from framework.admin import delayed

    failed: dict[str, str] = {}
    if arguments.group is not None:
        found = [of_group(admin, arguments.group)]
    else:
        found, failed = of_all(admin, with_members=arguments.json, with_own=arguments.all)
    retries = delayed.waiting(admin)
    _show(admin, found, retries, arguments)
    unknown, is_unknown = unknown_of(admin, found, is_named=arguments.group is not None)
    if retries.unknown and not (arguments.json and arguments.fail_above is None):
        unknown["retries that wait"] = retries.unknown
    connect.say_unknown({**failed, **unknown})
    above = _above(admin, found, retries, arguments.fail_above)
    return ExitCode.FAILED if above or failed or is_unknown else ExitCode.CLEAN


def unknown_of(admin: Admin, found: list[Positions], *, is_named: bool) -> tuple[dict[str, str], bool]:
    """What could not be said of these groups, and why; and whether the code has to say so.

    In a list, a group that was made and never used is nothing amiss, and one that has left some queues unread tells no
    script that all others are fine: its state says it, and `--fail-above` counts it.
    """
    blank = {
        admin.unwrapped(each.group): each.blank for each in found if each.blank and (is_named or not each.is_nobody)
    }
    told = blank | {who: reason for each in found for who, reason in each.unknown.items()}
    return told, (is_named and bool(blank)) or any(each.unserved for each in found)


def of_all(
    admin: Admin, *, with_members: bool = False, with_own: bool = False
) -> tuple[list[Positions], dict[str, str]]:
    """Where every group is, and the brokers that do not say which groups they have, with the reason.

    What members say costs a question to each of each group. A silent one is asked once.
    """
    from framework.admin.groups import all_groups
    from framework.admin.positions import positions

    names, failed = all_groups(admin, with_own=with_own)
    found: list[Positions] = []
    silent: dict[str, str] = {}
    with ProgressLine("asking") as progress:
        for name in names:
            progress.advance(len(found), len(names))
            found.append(positions(admin, name, with_members=with_members, silent=silent))
    return found, failed


def of_group(admin: Admin, group: str) -> Positions:
    """Where one group is. ConfigurationError where no broker has ever heard of it: the name is a mistake."""
    from framework.admin.groups import check_known
    from framework.admin.positions import positions

    found = positions(admin, admin.wrapped(group))
    if found.blank:
        check_known(admin, found.group)
    return found


def _show(admin: Admin, found: list[Positions], retries: WaitingRetries, arguments: argparse.Namespace) -> None:
    from framework.admin import health

    if arguments.watch and table.has_colour() and not arguments.json:
        sys.stdout.write("\x1b[H\x1b[2J")
    if arguments.json:
        table.write_json(row for each in found for row in queue_rows(admin, each))
    elif arguments.group is None:
        output.say(shown.said_of_lags(found, retries))
        table.write(GROUPS, [_sum(admin, each, retries) for each in found])
    else:
        output.say(shown.said(admin, health.look(admin, found[0], retries, RealClock().now_ms())))
        table.write(QUEUES, queue_rows(admin, found[0]))


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


def _sum(admin: Admin, found: Positions, retries: WaitingRetries) -> dict[str, Any]:
    return {
        "group": admin.unwrapped(found.group),
        "members": len(found.members.members),
        "queues": len(found.rows),
        "lag": found.lag,
        "lag_s": found.lag_s,
        "retries": retries.of(found.group),
    }


def _above(admin: Admin, found: list[Positions], retries: WaitingRetries, limit: int | None) -> bool:
    """Whether a group has more to do than that, or nobody knows; each is said."""
    is_above = False
    if limit is None:
        return False
    for each in found:
        waiting = retries.of(each.group) or 0
        if (each.lag is not None or each.is_nobody) and (each.lag or 0) + waiting <= limit:
            continue
        is_above = True
        lag = "not known" if each.lag is None else table.count(each.lag)
        lag += f", and {table.some(waiting, 'message')} waiting for a retry" if waiting else ""
        output.tell(f"above: {admin.unwrapped(each.group)}: lag is {lag}; the limit is {table.count(limit)}")
    return is_above
