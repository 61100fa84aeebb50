"""Set where a group goes on: every queue of a topic, or of all its topics. Changes the group's offsets.

It shows for each queue how many messages are handled again and how many are never handled, and asks before it does
anything. Members may be online if the brokers are of 5.2 or later.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from framework.cli import changes, connect, output, table
from framework.cli.commands.tail import begin
from framework.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from framework.admin.cluster import Admin
    from framework.admin.resets import QueueReset

EXAMPLES = """\
examples:
  framework-app reset billing --to -2h --dry-run     what would be handled again
  framework-app reset billing --to earliest          asks, then handles everything again
  framework-app reset billing orders --to latest     passes over what waits in one topic
  framework-app reset billing --to 2026-11-22T10:00:00Z --yes --json
"""
COLUMNS = (
    *table.PLACE,
    *table.MOVED,
    table.Column("AGAIN", "again", table.count, is_number=True),
    table.Column("PASSED OVER", "passed_over", table.count, is_number=True),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", help="the group")
    parser.add_argument(
        "topic", metavar="TOPIC", nargs="?", default="", help="only this topic; else all of the group's"
    )
    parser.add_argument(
        "--to", metavar="PLACE", required=True, type=begin, help="earliest, latest, -2h, a time, or an offset"
    )
    changes.add_change(parser)
    connect.add_cluster(parser)


def execute(arguments: argparse.Namespace) -> int:
    from framework.admin import resets

    changes.check_askable(arguments)
    with connect.admin(arguments) as admin:
        group = admin.wrapped(arguments.group)
        planned = resets.plan(admin, group, admin.wrapped(arguments.topic), arguments.to)
        summary = summary_of(arguments.group, planned)
        rows = [row_of(admin, each) for each in planned]
        if not changes.is_agreed(arguments, "reset", summary, COLUMNS, rows):
            return changes.undone(arguments)
        failed = resets.apply(admin, group, planned)
        done = len(planned) - len(failed)
        changes.audit("reset", group=group, to=arguments.to, queues=done, failed=len(failed))
        for each, reason in failed:
            output.tell(f"not reset: {each.queue}: {reason}")
    return ExitCode.FAILED if failed else ExitCode.CLEAN


def summary_of(group: str, planned: list[QueueReset]) -> str:
    """What the plan means, in a line."""
    again = sum(each.again or 0 for each in planned)
    over = sum(each.passed_over or 0 for each in planned)
    unknown = sum(each.before is None for each in planned)
    told = f"{group}: {table.some(again, 'message')} again, {table.count(over)} passed over, in {len(planned)} queues"
    return f"{told}; {unknown} of them have no stored offset yet" if unknown else told


def row_of(admin: Admin, each: QueueReset) -> dict[str, Any]:
    """One queue with the fields of the JSON."""
    return {
        "topic": admin.unwrapped(each.queue.topic),
        "broker": each.queue.broker,
        "queue": each.queue.number,
        "before": each.before,
        "after": each.after,
        "again": each.again,
        "passed_over": each.passed_over,
    }
