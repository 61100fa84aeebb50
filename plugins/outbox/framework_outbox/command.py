"""`framework-app outbox`: shows what waits in the table, and acts on messages that no broker takes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from framework.harmless import plain
from framework.mistakes import UsageWrong
from framework.model.durations import to_text

if TYPE_CHECKING:
    from framework_outbox.table import Status, Table


class OutboxCommand:
    """Show what waits in the outbox (status), and act on messages that no broker takes (retry, discard).

    framework-app outbox status [--json]
    framework-app outbox retry --id 17 --id 18       send refused or failed rows at once
    framework-app outbox retry --all
    framework-app outbox discard --id 17             remove a refused row; later rows of its key go on
    framework-app outbox sql                         print the SQL that creates the table, for your own migrations
    """

    def __init__(self, table: Callable[[], Table]) -> None:
        self._table = table

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("action", choices=["status", "retry", "discard", "sql"], help="what to do")
        parser.add_argument("--id", type=int, action="append", default=[], help="the number of a row; repeatable")
        parser.add_argument("--all", action="store_true", help="retry: all refused or failed rows")
        parser.add_argument("--json", action="store_true", help="status: as JSON, for programs")

    def execute(self, arguments: argparse.Namespace, _settings: object) -> int:
        from framework_outbox.table import described

        _check(arguments)
        table = self._table()
        if arguments.action == "sql":
            _say("".join(f"{statement};\n" for statement in table.schema()))
            return 0
        try:
            if arguments.action == "status":
                status = table.status()
                _say(f"{json.dumps(described(status))}\n" if arguments.json else shown(status))
            elif arguments.action == "retry":
                count = table.retry(None if arguments.all else arguments.id)
                _say(f"{count} to be sent again\n")
            else:
                _say(f"{table.discard(arguments.id)} discarded\n")
        finally:
            table.close()
        return 0


def _check(arguments: argparse.Namespace) -> None:
    action, chosen = arguments.action, bool(arguments.id)
    if action == "retry" and chosen is arguments.all:
        raise UsageWrong("outbox retry: write --id 17 for each row, or --all")
    if action == "discard" and (arguments.all or not chosen):
        raise UsageWrong("outbox discard: write --id 17 for each row; each one is lost")
    if action in {"status", "sql"} and (chosen or arguments.all):
        raise UsageWrong(f"outbox {action}: --id and --all are for retry and discard")
    if arguments.json and action != "status":
        raise UsageWrong(f"outbox {action}: --json is for status")


def shown(status: Status) -> str:
    """For people."""
    since = f", the oldest for {to_text(status.oldest_ms)}" if status.waiting else ""
    lines = [f"waiting  {status.waiting}{since}"]
    if status.failing:
        lines.append(f"failing  {status.failing} of them: {status.reason}")
    lines += [f"sent     {status.sent} (kept for a while)", f"refused  {status.refused}"]
    for each in status.worst:
        key = f" key {each.key}, {each.behind} behind it" if each.key is not None else ""
        lines.append(f"  {each.number}  {each.message_id} to {each.topic}{key}: {each.reason}")
    return "".join(f"{plain(line)}\n" for line in lines)


def _say(text: str) -> None:
    sys.stdout.write(text)
