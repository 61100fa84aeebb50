"""Show where one message is, and what became of it in each group: attempts, retries, its end. Reads only.

MESSAGE_ID is the unique key that `send` and logs show, or the offset message id. Brokers find a unique key within a
topic: without --topic, and where no trace names one, every topic is searched. Attempts with their time and their client
are known where clients write a trace (`trace: true` of a group); else copies of the message and groups' offsets tell.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from framework.cli import connect, output, table
from framework.cli.exit_codes import ExitCode
from framework.cli.progress import ProgressLine
from framework.cli.shown.explained import MessageNotFound
from framework.errors import bare

if TYPE_CHECKING:
    from framework.admin.cluster import Admin
    from framework.admin.traces import MessageTrace, TraceEvent

EXAMPLES = """\
examples:
  framework-app trace C0A8010A00002A9F0000000000000000
  framework-app trace C0A8010A00002A9F0000000000000000 --topic orders      quicker: no other topic is searched
  framework-app trace C0A8010A00002A9F0000000000000000 --json
"""
STANDING = "group"
ID_SHOWN = 80
EVENTS = (
    table.Column("AT", "at"),
    table.Column("WHAT", "what"),
    table.Column("WHERE", "where"),
    table.Column("WHO", "who"),
    table.Column("ELAPSED", "elapsed_ms", lambda ms: table.age(ms / 1000), is_number=True),
    table.Column("RESULT", "result"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("message_id", metavar="MESSAGE_ID", help="its unique key, or its offset message id")
    parser.add_argument(
        "--topic", metavar="T", action="append", default=[], dest="topics", help="where to look; repeatable"
    )
    parser.add_argument("--trace-topic", metavar="T", help="where clients write traces (default RMQ_SYS_TRACE_TOPIC)")
    connect.add_cluster(parser)


def execute(arguments: argparse.Namespace) -> int:
    from framework.admin import traces
    from framework.model.reserved import TRACE_TOPIC

    with connect.admin(arguments) as admin:
        with ProgressLine("searching") as progress:
            found = traces.trace_of(
                admin,
                arguments.message_id,
                topics=[admin.wrapped(topic) for topic in arguments.topics],
                trace_topic=arguments.trace_topic or TRACE_TOPIC,
                advance=progress.advance,
            )
        connect.say_absent(admin)
        if found.is_found:
            _print(admin, found, is_json=arguments.json)
    _say_more(arguments, found)
    return ExitCode.CLEAN


def row_of(event: TraceEvent) -> dict[str, Any]:
    """With the fields of the JSON. The state of a group has no time."""
    return {
        "at": None if event.at_ms is None else table.instant(event.at_ms),
        "what": event.what,
        "where": event.where,
        "who": event.who,
        "elapsed_ms": event.elapsed_ms,
        "result": event.result,
    }


def _print(admin: Admin, found: MessageTrace, *, is_json: bool) -> None:
    if is_json:
        table.write_json(map(row_of, found.events))
        return
    groups = [each for each in found.events if each.what == STANDING]
    topic = "a topic that is not known" if found.topic is None else admin.unwrapped(found.topic)
    read = f"{len(groups)} group{'s' * (len(groups) != 1)}" if groups else "no group that is known"
    output.say(table.bold(f"{found.message_id}: of {topic}, read by {read}"))
    width = max((len(each.who or "") for each in groups), default=0)
    for each in groups:
        output.say(f"  {each.who or '':<{width}}  {each.result}")
    output.say("")
    table.write(EVENTS, [row_of(each) for each in found.events if each.what != STANDING])


def _say_more(arguments: argparse.Namespace, found: MessageTrace) -> None:
    """On stderr: what the result does not say, and why."""
    connect.say_unknown(found.unknown)
    if not found.is_found:
        named = ", ".join(arguments.topics) or "its topic"
        message_id = bare(arguments.message_id, ID_SHOWN)
        where = table.some(found.searched, "topic") if found.searched else named
        raise MessageNotFound(
            f"no broker finds {message_id} in {where}: it was never stored, "
            "or it is deleted, or its broker keeps no index (messageIndexEnable=false)"
        )
    if not found.is_traced:
        output.tell(
            "trace: no client wrote a trace of it, so its copies alone tell of attempts; "
            "groups with `trace: true` in their settings write one"
        )
