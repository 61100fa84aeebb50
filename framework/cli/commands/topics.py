"""List the topics of a cluster: how many queues each has, on which brokers, and how many messages come. Reads only.

IN/s is of the last minute, as brokers count it.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from framework.cli import connect, output, table
from framework.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from framework.admin.cluster import Admin
    from framework.admin.topics import TopicView

EXAMPLES = """\
examples:
  framework-app topics
  framework-app topics --all --json
"""
COLUMNS = (
    table.Column("TOPIC", "topic"),
    table.Column("QUEUES", "queues", table.count, is_number=True),
    table.Column("IN/s", "in_s", table.rate, is_number=True),
    table.Column("BROKERS", "brokers", ", ".join),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="also retry and dead-letter topics, and RocketMQ's own")
    connect.add_cluster(parser)


def execute(arguments: argparse.Namespace) -> int:
    from framework.admin.topics import stored_a_second, topics

    unknown: dict[str, str] = {}
    with connect.admin(arguments) as admin:
        found = topics(admin, with_system=arguments.all)
        connect.say_absent(admin)
        rows = [_row(admin, each, stored_a_second(admin, each, unknown)) for each in found]
    if arguments.json:
        table.write_json(rows)
    else:
        output.say(said(rows))
        table.write(COLUMNS, rows)
    connect.say_unknown({each.name: each.trouble for each in found if each.trouble} | unknown)
    return ExitCode.CLEAN


def _row(admin: Admin, topic: TopicView, in_s: float | None) -> dict[str, Any]:
    return {
        "topic": admin.unwrapped(topic.name),
        "queues": topic.queues,
        "brokers": list(topic.brokers),
        "in_s": None if in_s is None else round(in_s, 3),
    }


def said(rows: list[dict[str, Any]]) -> str:
    """The verdict, in a line."""
    brokers = {broker for row in rows for broker in row["brokers"]}
    unknown = sum(row["queues"] is None for row in rows)
    told = f"{table.some(len(rows), 'topic')} on {table.some(len(brokers), 'broker')}"
    return f"{told}; where {unknown} of them are is not known" if unknown else told
