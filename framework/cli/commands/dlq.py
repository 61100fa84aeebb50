"""Look at a group's dead letters, send them once more, or pass over them.

`list` and `show` read only. `replay` sends to the topics that the letters came from, or with --to-retry to the group
alone; each is sent once, also where a replay was killed and is begun again. `drop` passes over letters, so that no
replay sends them; with --since, --key or --reason those among the others. Both keep what is done at the brokers, as the
offset of the group DLQ_REPLAY_<group> and as copies or marks. Nothing is deleted.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from threading import Event
from typing import TYPE_CHECKING, Any

from framework.cli import changes, connect, options, output, table
from framework.cli.commands.tail import begin, body_fields
from framework.cli.exit_codes import ExitCode
from framework.cli.progress import ProgressLine
from framework.cli.shown.explained import MessageNotFound
from framework.errors import bare
from framework.mistakes import UsageWrong
from framework.net.real_clock import RealClock

if TYPE_CHECKING:
    from framework.admin.browse import Scan
    from framework.admin.cluster import Admin
    from framework.admin.dead_letters import Letter, LetterChoice, LetterQueue
    from framework.admin.replays import ReplayPlan

EXAMPLES = """\
examples:
  framework-app dlq list billing                     how many, why, since when
  framework-app dlq list billing --reason KeyError --since -1h --json
  framework-app dlq show billing C0A8010A00002A9F0000000000000000
  framework-app dlq replay billing --reason KeyError --dry-run
  framework-app dlq replay billing --to-retry --rate 50/s    only this group gets them
  framework-app dlq drop billing                             passes over all of them
  framework-app dlq drop billing --reason KeyError           passes over those
"""
COLUMNS = (
    table.Column("COUNT", "count", table.count, is_number=True),
    table.Column("ERROR", "error"),
    table.Column("FIRST", "first"),
    table.Column("LAST", "last"),
    table.Column("ATTEMPTS", "attempts"),
    table.Column("LINE", "line"),
    table.Column("REASON", "reason"),
)
REASON_SHOWN, ID_SHOWN = 120, 64
TARGETS = (table.Column("TOPIC", "topic"), table.Column("COUNT", "count", table.count, is_number=True))
OVER = {"replay": "replayed", "drop": "dropped"}
MOVES = (*table.PLACE[1:], *table.MOVED)
OF_ACTION = {
    "list": {"since", "key", "reason", "limit", "all"},
    "show": set[str](),
    "replay": {"since", "key", "reason", "limit", "rate", "to_retry", "dry_run", "yes"},
    "drop": {"since", "key", "reason", "limit", "dry_run", "yes"},
}
ACTIONS = tuple(OF_ACTION)
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
        "--reason",
        metavar="TEXT",
        type=reason,
        help="only where error, reason or line has this; ~TEXT: a regular expression",
    )
    parser.add_argument("--limit", metavar="N", type=options.number(1, 10**9), help="only so many, the oldest")
    parser.add_argument("--all", action="store_true", help="list: also those that were replayed or dropped")
    parser.add_argument("--to-retry", action="store_true", help="replay: to the group's retry topic; only it gets them")
    parser.add_argument("--rate", metavar="N/s", type=rate, help="replay: at most so many a second")
    changes.add_change(parser)
    connect.add_cluster(parser)


def since(text: str) -> int:
    """A time, in Unix milliseconds."""
    try:
        moment = begin(text)
    except argparse.ArgumentTypeError:
        moment = None
    if moment is None or moment.kind != "time":
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write -2h or 2026-11-22T10:00:00Z")
    return moment.value


def reason(text: str) -> Any:
    """What decides whether an end is meant."""
    from framework.admin.dead_letters import reason_of

    return options.reads(reason_of)(text)


def rate(text: str) -> float:
    """Messages a second."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/s)?", text, re.ASCII)
    if found is None or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no rate; write 50/s")
    return float(found[1])


def execute(arguments: argparse.Namespace) -> int:
    if why := _misfit(arguments):
        raise UsageWrong(f"dlq {why}")
    if "yes" in OF_ACTION[arguments.action]:
        changes.check_askable(arguments)
    actions = {"list": _list, "show": _show, "replay": _replay, "drop": _drop}
    with connect.admin(arguments) as admin:
        connect.say_absent(admin)
        return actions[arguments.action](arguments, admin)


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

    with ProgressLine("looking") as progress:
        # With --all it makes no difference which of them were replayed, so brokers are not asked for copies.
        most = 0 if arguments.all else None
        places = dead_letters.queues(
            admin, admin.wrapped(arguments.group), most=most, advance=progress.advance
        )  # fmt: skip
    scan = Scan()
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
        "line": cause.line,
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
        "line": letter.line,
    }


def _say_gone(scan: Scan) -> None:
    for range_ in scan.gone:
        output.tell(f"gone: {range_}: deleted by the broker")


# show


def _show(arguments: argparse.Namespace, admin: Admin) -> int:
    from framework.admin import dead_letters
    from framework.admin.browse import Scan

    places, scan, shown = dead_letters.queues(admin, admin.wrapped(arguments.group), most=0), Scan(), 0
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
        raise MessageNotFound(
            f"{arguments.group} has no dead letter {bare(arguments.message_id, ID_SHOWN)}; "
            f"`framework-app dlq list {arguments.group} --json --all` names each"
        )
    return ExitCode.CLEAN


def _print(row: dict[str, Any], *, is_first: bool) -> None:
    """Field by field; the body comes last, with its lines as they are."""
    if not is_first:
        output.say("")
    for name, value in row.items():
        if name in {"properties", "body", "body_base64"}:
            continue
        shown = table.UNKNOWN if value is None else " ".join(value) if isinstance(value, list) else str(value)
        output.say(f"{name:<14} {shown}")
    for name, text in sorted(row["properties"].items()):
        output.say(f"  {name}={text}")
    body = row.get("body") if "body" in row else row["body_base64"]
    for line in (body or "").splitlines():
        output.say(line)


# replay


def _replay(arguments: argparse.Namespace, admin: Admin) -> int:
    from framework.admin import replays

    group = admin.wrapped(arguments.group)
    with ProgressLine("looking") as progress:
        planned = replays.plan(
            admin, group, _choice(arguments), limit=arguments.limit, to_retry=arguments.to_retry,
            advance=progress.advance,
        )  # fmt: skip
    summary = _summary(arguments, planned, sorted(map(admin.unwrapped, planned.others)))
    rows = [
        {"topic": None if topic is None else admin.unwrapped(topic), "count": count}
        for topic, count in planned.counts.items()
    ]
    if not changes.is_agreed(arguments, "dlq replay", summary, TARGETS, rows):
        return changes.undone(arguments)
    tally: Counter[str] = Counter()
    try:
        _run(admin, planned, tally, "replay", pacer(arguments.rate))
    finally:
        told = {name: tally[name] for name in ("sent", "skipped", "failed")}
        where = "retry" if arguments.to_retry else "origin"
        changes.audit("dlq replay", group=group, to=where, **told)
        if arguments.json:
            table.write_json([told])
        else:
            output.say("replayed: " + " ".join(f"{name}={count}" for name, count in told.items()))
    return ExitCode.FAILED if tally["failed"] else ExitCode.CLEAN


def _run(
    admin: Admin, planned: ReplayPlan, tally: Counter[str], what: str, pace: Callable[[], None] = lambda: None
) -> None:
    """Carry out the plan, count what comes of each, and name those that fail."""
    from framework.admin import replays

    progress = ProgressLine(what)
    try:
        for outcome in replays.run(admin, planned, pace):
            tally[outcome.what] += 1
            if outcome.why:
                output.tell(f"not {OVER[what]}: {outcome.letter.message.message_id}: {outcome.why}")
            progress.advance(tally.total(), planned.count)
    finally:
        progress.end()


def _summary(arguments: argparse.Namespace, planned: ReplayPlan, others: list[str]) -> str:
    known = planned.count - planned.counts.get(None, 0)
    where = "this group's retry topic" if arguments.to_retry else "the topics that they came from"
    letters = "dead letter goes" if known == 1 else "dead letters go"
    told = f"{arguments.group}: {table.count(known)} {letters} to {where}"
    if others:
        told += f"; groups that get them, too: {', '.join(others)} (--to-retry: no other group does)"
    lost = planned.count - known
    return f"{told}; {table.count(lost)} do not say where they came from, and stay" if lost else told


def pacer(rate: float | None) -> Callable[[], None]:
    """What waits until the next one may be sent."""
    if rate is None:
        return lambda: None
    clock, pause_ms, free_ms = RealClock(), 1000 / rate, 0.0

    def pace() -> None:
        nonlocal free_ms
        now_ms = clock.monotonic_ms()
        if now_ms < free_ms:
            Event().wait((free_ms - now_ms) / 1000)
        free_ms = max(now_ms, free_ms) + pause_ms

    return pace


# drop


def _drop(arguments: argparse.Namespace, admin: Admin) -> int:
    from framework.admin import dead_letters, replays

    group = admin.wrapped(arguments.group)
    if _choice(arguments) != dead_letters.LetterChoice():
        return _drop_chosen(arguments, admin, group)
    with ProgressLine("looking") as progress:
        moves = replays.fronts(
            admin, dead_letters.queues(admin, group, advance=progress.advance), arguments.limit
        )  # fmt: skip
    count = replays.passed_over(moves)
    summary = _passed_over(arguments, count)
    if not changes.is_agreed(arguments, "dlq drop", summary, MOVES, rows_of(moves)):
        return changes.undone(arguments)
    replays.drop(admin, group, moves)
    changes.audit("dlq drop", group=group, passed_over=count)
    return ExitCode.CLEAN


def _drop_chosen(arguments: argparse.Namespace, admin: Admin, group: str) -> int:
    """From among others, which no offset can pass over: each gets a mark at its broker."""
    from framework.admin import replays

    with ProgressLine("looking") as progress:
        planned = replays.plan(
            admin, group, _choice(arguments), limit=arguments.limit, is_drop=True, advance=progress.advance
        )
    rows = [{"count": planned.count}] if planned.count else []
    if not changes.is_agreed(arguments, "dlq drop", _passed_over(arguments, planned.count), TARGETS[1:], rows):
        return changes.undone(arguments)
    tally: Counter[str] = Counter()
    try:
        _run(admin, planned, tally, "drop")
    finally:
        changes.audit("dlq drop", group=group, passed_over=tally["sent"] + tally["skipped"], failed=tally["failed"])
    return ExitCode.FAILED if tally["failed"] else ExitCode.CLEAN


def _passed_over(arguments: argparse.Namespace, count: int) -> str:
    passed = f"{table.some(count, 'dead letter')} passed over"
    return f"{arguments.group}: {passed}; brokers keep them as long as any message"


def rows_of(moves: Mapping[LetterQueue, int]) -> list[dict[str, Any]]:
    """How far each queue's letters are passed over."""
    return [
        {"broker": each.queue.broker, "queue": each.queue.number, "before": each.begin, "after": offset}
        for each, offset in moves.items()
    ]
