"""How `pause`, `resume` and `resize` change a running application: plan, question, every process, audit line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from framework.cli import changes, output, table
from framework.cli.exit_codes import ExitCode
from framework.cli.live.figures import pause_fields
from framework.cli.live.find import Unfound, add_target, ask_at, find
from framework.errors import nearest
from framework.mistakes import GroupNotHere
from framework.net.control.asking import workers_of

Picture = dict[str, Any]
"""A group of a process, as its snapshot has it."""

COLUMNS = (
    table.Column("WORKER", "worker", is_number=True),
    table.Column("PROCESS", "process", is_number=True),
    table.Column("GROUP", "group"),
    table.Column("PAUSED", "paused", lambda value: "yes" if value else "no"),
    table.Column("CONCURRENCY", "concurrency", is_number=True),
    table.Column("ERROR", "error"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", help="the group, as the application names it")
    changes.add_change(parser)
    add_target(parser)


def execute(
    arguments: argparse.Namespace, command: str, meaning: Callable[[list[Picture]], str], **more: object
) -> int:
    """`meaning` says in a sentence what the change comes to, given the group in each process."""
    changes.check_askable(arguments)
    path = find(arguments)
    workers = workers_of(ask_at(path, {"ask": "snapshot"}))
    group, name = arguments.group, check_known(arguments.group, workers)
    here = [each for worker in workers for each in _groups(worker) if group in {each["own_name"], each["group"]}]
    silent = [each for each in workers if "snapshot" not in each]
    count = f"{len(here)} processes" if len(here) != 1 else "1 process"
    summary = f"{group} of {name} in {count}: {meaning(here)}"
    if silent:
        summary += f"; {len(silent)} more do not answer now"
    if not arguments.json:
        output.say(summary)
    if arguments.dry_run:
        if arguments.json:
            table.write_json(_row(worker, each) for worker in workers for each in _groups(worker) if each in here)
        output.tell(f"{command}: nothing was changed (--dry-run)")
        return ExitCode.CLEAN
    if not changes.is_confirmed(arguments, f"{command} {group}?"):
        output.tell(f"{command}: nothing was changed")
        return ExitCode.FAILED
    answers = workers_of(ask_at(path, {"ask": command, "group": group, "by": changes.who(), **more}))
    failed = [each for each in answers if "error" in each]
    changes.audit(
        command, group=group, **more, application=name, processes=len(answers) - len(failed), failed=len(failed)
    )
    rows = [{column.field: each.get(column.field) for column in COLUMNS} for each in answers]
    if arguments.json:
        for each, row in zip(answers, rows, strict=True):
            before = {field: each.get(field) for field in ("paused_before", "concurrency_before")}
            told = {**row, **before, "pause": pause_fields(each.get("pause"))}
            output.say(output.as_json(told))
    elif len(answers) > 1 or failed:
        table.write(COLUMNS if failed else COLUMNS[:-1], rows)
    return ExitCode.FAILED if failed else ExitCode.CLEAN


def _groups(worker: dict[str, Any]) -> list[Picture]:
    picture = worker.get("snapshot")
    return [] if picture is None else list(picture["groups"])


def check_known(group: str, workers: list[dict[str, Any]]) -> str:
    """The application's name. Raises where no process that answers has such a group: then its name is a mistake."""
    pictures = [each["snapshot"] for each in workers if "snapshot" in each]
    if not pictures:
        raise Unfound("; ".join(sorted({str(each.get("error")) for each in workers})) or "it has no process yet")
    known = {each["own_name"]: None for picture in pictures for each in picture["groups"]}
    if group not in known and group not in {each["group"] for picture in pictures for each in picture["groups"]}:
        waiting = sorted({name for picture in pictures for name in picture["dormant"]})
        if group in waiting:
            raise GroupNotHere(f"group {group!r} has not started: the application keeps it back until it asks for it")
        hint = nearest(group, known) or f"; running: {', '.join(known) or 'none yet'}"
        raise GroupNotHere(f"no group {group!r} runs in {pictures[0]['name']}{hint}")
    return str(pictures[0]["name"])


def _row(worker: dict[str, Any], group: Picture) -> dict[str, Any]:
    return {
        "worker": worker.get("worker"), "process": worker.get("process"), "group": group["own_name"],
        "paused": group["is_paused"], "concurrency": group["concurrency"], "error": None,
    }  # fmt: skip


def outlook(groups: list[Picture]) -> str:
    """What runs now and what waits, all processes together, as far as known."""
    told = f"handlers that run now: {sum(int(each['running']) for each in groups)}; messages not done: "
    lags = [int(each["lag"]) for each in groups if each["lag"] is not None]
    if not lags:
        return f"{told}not known"
    more = " or more" if len(lags) < len(groups) or any(each["is_lag_least"] for each in groups) else ""
    return f"{told}{table.count(sum(lags))}{more}"
