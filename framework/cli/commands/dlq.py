"""Look at a group's dead letters: why they ended, and what each of them is. `list` and `show` read only."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from framework.cli import changes, connect, options, output, table
from framework.cli.commands.tail import begin, body_fields
from framework.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from framework.admin.browse import Scan
    from framework.admin.cluster import Admin
    from framework.admin.dead_letters import Letter, LetterChoice, LetterQueue

EXAMPLES = """\
examples:
  framework-app dlq list billing                     how many, why, since when
  framework-app dlq list billing --reason KeyError --since -1h --json
  framework-app dlq show billing C0A8010A00002A9F0000000000000000
"""
COLUMNS = (
    table.Column("COUNT", "count", table.count, is_number=True),
    table.Column("ERROR", "error"),
    table.Column("FIRST", "first"),
    table.Column("LAST", "last"),
    table.Column("ATTEMPTS", "attempts"),
    table.Column("REASON", "reason"),
)
REASON_SHOWN = 120
ACTIONS = ("list", "show")
OF_ACTION = {
    "list": {"since", "key", "reason", "limit", "all"},
    "show": set[str](),
}
"""Which options each of them takes, beside those of the cluster."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", metavar="ACTION", choices=ACTIONS, help=" | ".join(ACTIONS))
    parser.add_argument("group", metavar="GROUP", help="the group")
    parser.add_argument("message_id", metavar="MESSAGE_ID", nargs="?", help="show: which one")
    parser.add_argument(
        "--since", metavar="TIME", type=since, help="only what ended since then: -2h, 2026-11-22T10:00:00Z"
    )
    parser.add_argument("--key", metavar="K", help="only messages with this key")
    parser.add_argument(
        "--reason", metavar="TEXT", type=reason, help="only where error or reason has this; ~TEXT: a regular expression"
    )
    parser.add_argument("--limit", metavar="N", type=options.number(1, 10**9), help="only so many, the oldest")
    parser.add_argument("--all", action="store_true", help="list: also those that were replayed or dropped")
    connect.add_cluster(parser)


def since(text: str) -> int:
    """A time, in Unix milliseconds."""
    moment = begin(text)
    if moment.kind != "time":
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write -2h or 2026-11-22T10:00:00Z")
    return moment.value


def reason(text: str) -> Any:
    """What decides whether an end is meant."""
    from framework.admin.dead_letters import reason_of

    return options.reads(reason_of)(text)


def execute(arguments: argparse.Namespace) -> int:
    if why := _misfit(arguments):
        return changes.refuse("dlq", why)
    with connect.admin(arguments) as admin:
        return {"list": _list, "show": _show}[arguments.action](arguments, admin)


def _misfit(arguments: argparse.Namespace) -> str:
    """An option or a word that this action does not take."""
    action: str = arguments.action
    taken = set[str]().union(*OF_ACTION.values()) - OF_ACTION[action]
    for name in sorted(taken):
        if getattr(arguments, name):
            return f"{action} takes no --{name.replace('_', '-')}"
    if action == "show" and not arguments.message_id:
        return "show: say which one, by its message id"
    if action != "show" and arguments.message_id:
        return f"{action} takes no message id; `--key K` chooses"
    return ""


def _choice(arguments: argparse.Namespace) -> LetterChoice:
    from framework.admin.dead_letters import LetterChoice

    return LetterChoice(arguments.since, arguments.key, arguments.reason)


def _chosen(
    arguments: argparse.Namespace, admin: Admin, places: list[LetterQueue], scan: Scan, *, is_all: bool = False
) -> Iterator[Letter]:
    from framework.admin import dead_letters

    choice = _choice(arguments)
    found = (each for each in dead_letters.letters(admin, places, scan, is_all=is_all) if choice.has(each))
    return islice(found, arguments.limit)


# list


def _list(arguments: argparse.Namespace, admin: Admin) -> int:
    from framework.admin import dead_letters
    from framework.admin.browse import Scan

    places, scan = dead_letters.queues(admin, admin.wrapped(arguments.group)), Scan()
    found = _chosen(arguments, admin, places, scan, is_all=arguments.all)
    if arguments.json:
        table.write_json(row_of(admin, each) for each in found)
    else:
        causes = dead_letters.causes(found)
        output.say(_verdict(arguments, places, sum(each.count for each in causes)))
        if causes:
            table.write(COLUMNS, [_cause_row(each) for each in causes])
    _say_gone(scan)
    return ExitCode.CLEAN


def _verdict(arguments: argparse.Namespace, places: list[LetterQueue], count: int) -> str:
    kept = sum(each.end - each.low for each in places)
    done = 0 if arguments.all else sum(each.done for each in places)
    waiting = kept - done
    chosen = "" if count == waiting else f"{table.count(count)} of "
    letters = "dead letter" if waiting == 1 else "dead letters"
    told = f"{arguments.group}: {chosen}{table.count(waiting) if waiting else 'no'} {letters}"
    return f"{told}; {table.count(done)} more were replayed or dropped (--all)" if done else told


def _cause_row(cause: Any) -> dict[str, Any]:
    known = sorted(each for each in cause.attempts if each is not None)
    attempts = None if not known else str(known[0]) if len(known) == 1 else f"{known[0]}-{known[-1]}"
    text = cause.reason
    return {
        "count": cause.count,
        "error": cause.error,
        "first": table.instant(cause.first_ms),
        "last": table.instant(cause.last_ms),
        "attempts": attempts,
        "reason": f"{text[:REASON_SHOWN]}..." if text and len(text) > REASON_SHOWN else text,
    }


def row_of(admin: Admin, letter: Letter) -> dict[str, Any]:
    """A dead letter with the fields of the JSON."""
    return {
        "message_id": letter.message.message_id,
        "origin_topic": None if letter.origin_topic is None else admin.unwrapped(letter.origin_topic),
        "origin_queue": letter.origin_queue,
        "origin_offset": letter.origin_offset,
        "attempts": letter.attempts,
        "reason": letter.reason,
        "error": letter.error,
        "dead_at": table.instant(letter.dead_ms),
        "keys": list(letter.message.keys),
        **body_fields(letter.message),
    }


def _say_gone(scan: Scan) -> None:
    for range_ in scan.gone:
        sys.stderr.write(f"gone: {range_}: deleted by the broker\n")


# show


def _show(arguments: argparse.Namespace, admin: Admin) -> int:
    from framework.admin import dead_letters
    from framework.admin.browse import Scan

    places, scan, shown = dead_letters.queues(admin, admin.wrapped(arguments.group)), Scan(), 0
    for letter in dead_letters.letters(admin, places, scan, is_all=True):
        if arguments.message_id not in {letter.message.message_id, letter.message.offset_message_id}:
            continue
        row = {**row_of(admin, letter), "place": letter.place, "properties": dict(letter.message.properties)}
        if arguments.json:
            table.write_json([row])
        else:
            _print(row, is_first=not shown)
        shown += 1
    _say_gone(scan)
    if not shown:
        sys.stderr.write(f"dlq: {arguments.group} has no dead letter {table.plain(arguments.message_id)}\n")
        return ExitCode.FAILED
    return ExitCode.CLEAN


def _print(row: dict[str, Any], *, is_first: bool) -> None:
    """Field by field; the body comes last, with its lines as they are."""
    if not is_first:
        output.say("")
    for name, value in row.items():
        if name in {"properties", "body", "body_base64"}:
            continue
        shown = table.UNKNOWN if value is None else " ".join(value) if isinstance(value, list) else str(value)
        output.say(f"{name:<14} {table.plain(shown)}")
    for name, text in sorted(row["properties"].items()):
        output.say(f"  {table.plain(f'{name}={text}')}")
    body = row.get("body") if "body" in row else row["body_base64"]
    for line in (body or "").splitlines():
        output.say(table.plain(line))
