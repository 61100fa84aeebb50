"""`framework-app spark backfill`: a topic's past into Parquet. `backfill.py` does the work in Spark."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from framework.mistakes import UsageWrong
from framework.settings.schema import AppSettings, ClusterSettings
from framework_spark.connection import options_of
from framework_spark.settings import SparkSettings

PIECE_ROWS = 1_000_000
_WIDTH = 30


class SparkCommand:
    """Write the messages of a topic that were stored between two instants as Parquet.

    framework-app spark backfill --topic orders --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z --into ./orders

    Run it again with the same options and it goes on where it was interrupted. The cluster is that of the settings, and
    so is Spark's session (plugins.settings.spark).
    """

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("action", choices=["backfill"], help="what to do")
        parser.add_argument("--topic", required=True, help="one topic, or several with commas")
        parser.add_argument(
            "--from",
            metavar="TIME",
            dest="since",
            default="earliest",
            help="where to begin: a time with its zone, Unix ms, or earliest",
        )
        parser.add_argument(
            "--to",
            metavar="TIME",
            dest="until",
            default="latest",
            help="where to end: a time with its zone, Unix ms, or latest",
        )
        parser.add_argument("--into", metavar="FOLDER", type=Path, required=True, help="where the Parquet files go")
        parser.add_argument(
            "--option",
            metavar="NAME=VALUE",
            action="append",
            default=[],
            help="an option of the source, such as tags=a; repeatable",
        )
        parser.add_argument(
            "--piece", metavar="ROWS", type=int, default=PIECE_ROWS, help="offsets per piece (default %(default)s)"
        )

    def execute(self, arguments: argparse.Namespace, settings: AppSettings) -> int:
        from framework_spark.backfill import planned, run
        from framework_spark.sessions import SessionsOfThisProcess

        if arguments.piece < 1:
            raise UsageWrong(f"--piece {arguments.piece}: write how many rows, 1 or more")
        sessions = SessionsOfThisProcess(self._settings)
        sessions.check()
        plan = planned(given(arguments, settings.cluster), arguments.into, arguments.piece)
        if len(plan.done) < plan.pieces:
            session = sessions.make()
            try:
                run(session, plan, arguments.into, show)
            finally:
                session.stop()
        sys.stdout.write(f"{plan.rows} offsets in {plan.pieces} pieces: {arguments.into}\n")
        return 0


def given(arguments: argparse.Namespace, cluster: ClusterSettings) -> dict[str, str]:
    """Options of the source."""
    found = {**options_of(cluster, "backfill"), "topic": arguments.topic}
    for text, kind, option in ((arguments.since, "starting", "--from"), (arguments.until, "ending", "--to")):
        if text not in {"earliest", "latest"}:
            found[f"{kind}Timestamp"] = text
        elif (text == "latest") is (kind == "starting"):
            raise UsageWrong(f"{option} {text}: there is nothing to read")
        else:
            found[f"{kind}Offsets"] = text
    for text in arguments.option:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageWrong(f"--option {text}: write NAME=VALUE")
        found[name] = value
    return found


def show(done: int, total: int) -> None:
    """On stderr: a bar that is drawn over where somebody watches, else a line for each piece."""
    share = done / total if total else 1.0
    if sys.stderr.isatty():
        sys.stderr.write(f"\rbackfill [{'#' * int(share * _WIDTH):<{_WIDTH}}] {share:4.0%}")
        sys.stderr.write("\n" if done == total else "")
    else:
        sys.stderr.write(f"backfill: {done} of {total} offsets\n")
    sys.stderr.flush()
