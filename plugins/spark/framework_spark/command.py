"""`framework-app spark backfill`: a topic's past into Parquet. `backfill.py` does the work in Spark."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from framework.mistakes import UsageWrong
from framework.settings.schema import AppSettings, ClusterSettings
from framework_spark.connection import options_of
from framework_spark.options import source_options
from framework_spark.settings import SparkSettings

PIECE_ROWS = 1_000_000
_WIDTH = 30


class SparkCommand:
    """Write the messages of a topic that were stored between two instants as Parquet.

    framework-app spark backfill --topic orders --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z --into ./orders

    Run it again with the same options and it goes on where it was interrupted. The plan and a lock lie beside the data,
    so a folder of another backfill is refused. The cluster is that of the settings, and so is Spark's session
    (plugins.settings.spark).
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
        parser.add_argument(
            "--into", metavar="FOLDER", required=True, help="where the Parquet files go: a path or a URL that Spark has"
        )
        parser.add_argument(
            "--by", choices=["day"], default="", help="divide the files by the day in UTC when messages were stored"
        )
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
        parser.add_argument(
            "--take-over", metavar="RUN", type=int, help="go on after this run, which is dead and could not say so"
        )

    def execute(self, arguments: argparse.Namespace, settings: AppSettings) -> int:
        from framework_spark.backfill import backfill
        from framework_spark.folder import Folder
        from framework_spark.sessions import SessionsOfThisProcess

        if arguments.piece < 1:
            raise UsageWrong(f"--piece {arguments.piece}: write how many rows, 1 or more")
        read = given(arguments, settings.cluster)
        source_options(read, streaming=False)  # before a JVM takes its seconds to start
        sessions = SessionsOfThisProcess(self._settings)
        sessions.check()
        session = sessions.make()
        try:
            with _ended_by_sigterm():
                folder = Folder(session, arguments.into)
                plan = backfill(
                    session,
                    read,
                    folder,
                    by=arguments.by,
                    piece_rows=arguments.piece,
                    take_over=arguments.take_over,
                    progress=show,
                )
        finally:
            with suppress(Exception):  # its JVM may have had the same signal
                session.stop()
        sys.stdout.write(f"{plan.rows} offsets in {plan.pieces} pieces: {folder}\n")
        return 0


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Within, SIGTERM ends the command as an error does, so that the run says that it has ended."""

    def end(number: int, frame: Any) -> NoReturn:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
