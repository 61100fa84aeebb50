"""Show messages of a topic, oldest first. Reads only: it joins no group and stores no offset.

Without --from: the last ten, or with --follow what comes from now on.
"""

from __future__ import annotations

import argparse
import base64
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from framework.cli import connect, options, output, table
from framework.cli.exit_codes import ExitCode
from framework.cli.progress import ProgressLine

if TYPE_CHECKING:
    from framework.admin.browse import Scan, Span
    from framework.admin.cluster import Admin
    from framework.admin.moments import Moment
    from framework.model.message import Message
    from framework.reading import Filter

EXAMPLES = """\
examples:
  framework-app tail orders                          the last ten
  framework-app tail orders --follow                 what comes from now on, until Ctrl-C
  framework-app tail orders --from -2h --tag paid    of the last two hours
  framework-app tail orders --from earliest --key 8841
  framework-app tail orders --from 2026-11-22T10:00:00Z --limit 100 --json
  framework-app tail %DLQ%billing                    dead letters as they are stored
"""
DEFAULT = "-10"
BODY_SHOWN = 200
PROGRESS_EACH = 1_000


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="the topic")
    parser.add_argument("--from", metavar="PLACE", dest="begin", type=begin, help="where to begin: earliest, latest, "
                        "-20 (the last 20), -2h, a time, or an offset")  # fmt: skip
    parser.add_argument("--follow", action="store_true", help="go on with what comes")
    parser.add_argument("--limit", metavar="N", type=options.number(1, 10**9), help="exit after so many messages")
    parser.add_argument("--key", metavar="K", help="only messages with this key")
    parser.add_argument("--tag", metavar="T", default="", help="only messages with this tag; 'a || b' for several")
    parser.add_argument("--sql", metavar="EXPR", default="", help="only messages that match this SQL92 condition")
    connect.add_cluster(parser)


def begin(text: str) -> Moment:
    """Where to begin, as people write it."""
    from framework.admin.moments import moment
    from framework.net.real_clock import RealClock

    return options.reads(lambda word: moment(word, RealClock().now_ms()))(text)


def execute(arguments: argparse.Namespace) -> int:
    from framework.admin import browse
    from framework.reading import Filter

    wanted = Filter(tags=arguments.tag or "*", sql=arguments.sql)  # a mistake in it needs no cluster to be seen
    start = arguments.begin or begin("latest" if arguments.follow else DEFAULT)
    scan, shown, seen = browse.Scan(), 0, 0
    try:
        with connect.admin(arguments) as admin, ProgressLine("looking") as progress:
            connect.say_absent(admin)
            ranges = browse.spans(admin, admin.wrapped(arguments.topic), start)
            total = sum(each.end - each.begin for each in ranges)
            for message in _found(admin, arguments, wanted, start, ranges, scan):
                seen += 1
                if arguments.key is not None and arguments.key not in message.keys:
                    if seen % PROGRESS_EACH == 0:
                        progress.advance(scan.scanned, total)
                    continue
                progress.clear()
                output.say(output.as_json(row_of(admin, message)) if arguments.json else line_of(message))
                shown += 1
                if shown == arguments.limit or output.is_unheard():
                    break
    except KeyboardInterrupt:
        pass  # the way to end --follow
    for range_ in scan.gone:
        output.tell(f"gone: {range_}: deleted by the broker")
    if not arguments.json:
        output.tell(f"tail: {table.count(shown)} shown of {table.count(max(scan.scanned, seen))} looked at")
    return ExitCode.CLEAN


def _found(
    admin: Admin, arguments: argparse.Namespace, wanted: Filter, start: Moment, ranges: Sequence[Span], scan: Scan
) -> Iterator[Message]:
    from framework.admin import browse

    found = browse.messages(admin, wanted, ranges, scan)
    if start.kind == "last":  # of all queues together, where each had so many
        found = iter(deque(found, maxlen=start.value))
    if arguments.follow:
        found = chain(found, (each for each in browse.follow(admin, wanted, ranges, scan) if each is not None))
    return found


def row_of(admin: Admin, message: Message) -> dict[str, Any]:
    """A message with the fields of the JSON."""
    row: dict[str, Any] = {
        "topic": admin.unwrapped(message.topic),
        "broker": message.queue.broker,
        "queue": message.queue.number,
        "offset": message.queue_offset,
        "message_id": message.message_id,
        "keys": list(message.keys),
        "tags": message.tags,
        "properties": dict(message.properties),
        "born": table.instant(message.born_ms),
        "stored": table.instant(message.stored_ms),
    }
    return {**row, **body_fields(message)}


def body_fields(message: Message) -> dict[str, Any]:
    """The body as text or base64; null where it cannot be opened, and why."""
    body, trouble = body_of(message)
    text = _text(body)
    if trouble:
        return {"body": None, "trouble": trouble}
    return {"body_base64": base64.b64encode(body).decode()} if text is None else {"body": text}


def body_of(message: Message) -> tuple[bytes, str]:
    """The body, or why it cannot be opened."""
    from framework.errors import FrameworkError

    try:
        return message.body, ""
    except FrameworkError as error:
        return b"", str(error)


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def line_of(message: Message) -> str:
    """A message in a line: when it was stored, where it lies, its tag and keys, and the beginning of its body."""
    body, trouble = body_of(message)
    text = _text(body)
    shown = f"<{trouble}>" if trouble else text if text is not None else f"<{len(body)} bytes>"
    if len(shown) > BODY_SHOWN:
        shown = f"{shown[:BODY_SHOWN]}... ({len(body)} bytes)"
    words = [
        table.instant(message.stored_ms), f"{message.queue.broker}:{message.queue.number}:{message.queue_offset}",
        message.tags or table.UNKNOWN, ",".join(message.keys) or table.UNKNOWN, shown,
    ]  # fmt: skip
    return "  ".join(words)
