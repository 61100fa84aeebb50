"""Print what an error or a log event means, how it shows and what to do. Needs no network.

Errors end in their id, `[FA-S001]`, and log lines at warning and error have it in the field `id`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from framework.cli import output, table
from framework.cli.exit_codes import ExitCode
from framework.errors import nearest, shorten
from framework.mistakes import UsageWrong

if TYPE_CHECKING:
    from framework.catalogue.pages import Page

EXAMPLES = """\
examples:
  framework-app explain                   list every id
  framework-app explain FA-S001
  framework-app explain s001 h003         several; FA- may be left out
  framework-app explain "queue stalled"   a log event
"""
_ID = re.compile(r"(?:FA-)?([A-Z]\d{3})", re.IGNORECASE)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="*", help="such as FA-S001, or a log event; none: list all")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def execute(arguments: argparse.Namespace) -> int:
    from framework.catalogue.pages import pages

    known = pages()
    chosen = [_found(text, known) for text in arguments.ids] or list(known.values())
    if arguments.json:
        table.write_json({"id": each.id, "kind": each.kind, "title": each.title, "text": each.text} for each in chosen)
    elif arguments.ids:
        for index, each in enumerate(chosen):
            if index:
                output.say()
            output.say(table.bold(f"{each.id}  {each.title}"))
            output.say_lines(f"\n{each.text}")
    else:
        for each in chosen:
            output.say(f"{each.id}  {each.title}")
    return ExitCode.CLEAN


def _found(text: str, known: Mapping[str, Page]) -> Page:
    from framework.catalogue.pages import RETIRED, ids_of_events

    is_id = _ID.fullmatch(text.strip("[]"))
    name = f"FA-{is_id[1].upper()}" if is_id else ids_of_events().get(text, text)
    if name in RETIRED:
        raise UsageWrong(f"{name} is an id of former versions; nothing says it any more")
    if name not in known:
        near = nearest(name, known) or nearest(text, ids_of_events()) or "; `framework-app explain` lists all"
        raise UsageWrong(f"there is no id {shorten(text)}{near}")
    return known[name]
