"""List the groups of a cluster, or show one: its members, what they subscribe to, and each queue. Reads only."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from framework.cli import connect, output, table
from framework.cli.commands import lag
from framework.cli.exit_codes import ExitCode
from framework.cli.shown import groups as shown
from framework.net.real_clock import RealClock

if TYPE_CHECKING:
    from framework.admin.cluster import Admin
    from framework.admin.positions import Positions

EXAMPLES = """\
examples:
  framework-app groups
  framework-app groups billing
  framework-app groups billing --json    one line for each queue
"""
MEMBERS = (
    table.Column("MEMBER", "client_id"),
    table.Column("ADDRESS", "address"),
    table.Column("LANGUAGE", "language"),
    table.Column("VERSION", "version"),
    table.Column("QUEUES", "queues", table.count, is_number=True),
    table.Column("SUBSCRIPTION", "subscription"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", nargs="?", help="show this one, with its members and queues")
    parser.add_argument("--all", action="store_true", help="also the groups that remember replays of dead letters")
    connect.add_cluster(parser)


def execute(arguments: argparse.Namespace) -> int:
    with connect.admin(arguments) as admin:
        if arguments.group is not None:
            return _one(admin, lag.of_group(admin, arguments.group), is_json=arguments.json)
        return _all(admin, arguments)


def _all(admin: Admin, arguments: argparse.Namespace) -> ExitCode:
    from framework.admin import delayed, health
    from framework.admin.facts import LETTERS_ASKED

    found, failed = lag.of_all(admin, with_members=True, with_own=arguments.all)
    retries, now_ms = delayed.waiting(admin), RealClock().now_ms()
    looks = [health.look(admin, each, retries, now_ms) for each in found]
    looks.sort(key=lambda each: health.STATES.index(each.state))
    rows = [shown.row(admin, each) for each in looks]
    if arguments.json:
        table.write_json(rows)
    else:
        output.say(shown.said_of_all(looks))
        table.write(shown.GROUPS, rows)
    unknown, is_unknown = lag.unknown_of(admin, found, is_named=False)
    for each in looks:
        if (letters := each.letters).unasked:
            unknown[f"dead letters of {admin.unwrapped(each.positions.group)}"] = (
                f"at most {letters.waiting:,}; whether {letters.unasked:,} of them were replayed is not asked, "
                f"since these are more than {LETTERS_ASKED:,}"
            )
    if retries.unknown:
        unknown["retries that wait"] = retries.unknown
    connect.say_unknown({**failed, **unknown})
    return ExitCode.FAILED if failed or is_unknown else ExitCode.CLEAN


def _one(admin: Admin, found: Positions, *, is_json: bool) -> ExitCode:
    from framework.admin import delayed, health

    rows = lag.queue_rows(admin, found)
    if is_json:
        table.write_json({name: value for name, value in row.items() if name != "group"} for row in rows)
    else:
        output.say(shown.said(admin, health.look(admin, found, delayed.waiting(admin), RealClock().now_ms())))
        for trouble in (*shown.differences(admin, found), *shown.pauses(found)):
            output.say(table.caution(trouble))
        table.write(MEMBERS, [_member(admin, found, number) for number in range(len(found.members.members))])
        output.say("")
        table.write(lag.QUEUES, rows)
    unknown, is_unknown = lag.unknown_of(admin, [found], is_named=True)
    connect.say_unknown(unknown)
    return ExitCode.FAILED if is_unknown else ExitCode.CLEAN


def _member(admin: Admin, found: Positions, number: int) -> dict[str, Any]:
    member = found.members.members[number]
    info = member.info
    wanted = None if info is None else shown.wanted(admin, {each.topic: each.expression for each in info.subscriptions})
    return {
        "client_id": member.client_id,
        "address": member.address,
        "language": member.language,
        "version": None if info is None else info.properties.get("PROP_CLIENT_VERSION", str(member.version)),
        "queues": None if member.queues is None else len(member.queues),
        "subscription": wanted,
    }
