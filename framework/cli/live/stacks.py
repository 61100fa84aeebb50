"""Show every handler that runs in an application: its message, for how long, and where it is. Reads only.

The oldest comes first. A handler that blocks the event loop is named at the top, and the exit code is 1. Files, lines
and functions are shown, and no value of theirs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from framework.cli import output, table
from framework.cli.exit_codes import ExitCode
from framework.cli.live.changing import check_known
from framework.cli.live.find import Unfound, add_target, ask_at, find
from framework.net.control.asking import named, workers_of

EXAMPLES = """\
examples:
  framework-app stacks
  framework-app stacks billing --json
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", nargs="?", help="only the handlers of this group")
    add_target(parser)


def execute(arguments: argparse.Namespace) -> int:
    path = find(arguments)
    workers = workers_of(ask_at(path, {"ask": "stacks"}))
    count, is_well = len(workers), True
    handlers: list[dict[str, Any]] = []
    for worker in workers:
        trouble = worker.get("error") or worker.get("blocked")
        if trouble:
            is_well = False
            output.tell(f"{named(worker, count)}{trouble}")
        who = {"worker": worker.get("worker"), "process": worker.get("process")}
        found = worker.get("handlers", ())
        handlers += [{**who, **each} for each in found if arguments.group in {None, each["group"]}]
    if arguments.group and not handlers:
        with suppress(Unfound):  # a blocked event loop tells no groups, and what blocks it is said
            check_known(arguments.group, workers_of(ask_at(path, {"ask": "snapshot"})))
    handlers.sort(key=lambda each: -int(each["age_ms"]))
    if arguments.json:
        for each in handlers:
            output.say(output.as_json(each))
    else:
        for line in _text(handlers, count):
            output.say(line)
    return ExitCode.CLEAN if is_well else ExitCode.FAILED


def _text(handlers: list[dict[str, Any]], workers: int) -> Iterator[str]:
    if not handlers:
        yield "no handler runs"
        return
    oldest = table.age(handlers[0]["age_ms"] / 1000)
    yield (
        f"{len(handlers)} handlers run, the oldest for {oldest}"
        if len(handlers) > 1
        else f"1 handler runs, for {oldest}"
    )
    for each in handlers:
        place = f"{each['topic']} {each['broker']}:{each['queue']}:{each['offset']}"
        said = [f"{named(each, workers)}{each['group']}", table.age(each["age_ms"] / 1000), place, each["message_id"]]
        said += [" ".join(each["keys"])] if each["keys"] else []
        said += [f"attempt {each['attempt']}", each["in"]]
        said += [f"{each['messages']} messages"] if each["messages"] > 1 else []
        said += ["given up"] if each["is_given_up"] else []
        yield ""
        yield table.bold("  ".join(said))
        for frame in each["stack"]:
            yield f"    {frame}"
