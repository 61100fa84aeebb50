"""docs/options.md: every command, its words and options, as the parsers have them; `tests.house.pages` writes it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from framework.model.contracts import COMMAND_GROUPS
from tests.docs.words import parser_of

OPTIONS = Path(__file__).parents[2] / "docs" / "options.md"
SHARED = ("--debug", "--config", "--overlay", "--set", "--name-server")
HEAD = """\
# Options

Every command, its words and its options, generated from the parsers. `framework-app COMMAND --help` shows the same,
with examples; [commands](commands.md) says what those do that look at a cluster or change it.

"""


def options_page() -> str:
    shared = {option: action for action in _options("run") for option in action.option_strings if option in SHARED}
    rows = [_row("run", shared[option]) for option in SHARED]
    parts = [f"{HEAD}These are the same everywhere:\n\n| option | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"]
    for title, commands in COMMAND_GROUPS.items():
        parts.append(f"## {title.partition(' (')[0].capitalize()}\n")
        parts += ["\n".join(_described(name, text)) + "\n" for name, text in commands.items()]
    return "\n".join(parts).rstrip() + "\n"


def _described(name: str, text: str) -> Iterator[str]:
    words = [each for each in parser_of(name)._actions if not each.option_strings]
    spelled = [f"[{_name(each)}]" if each.nargs in {"?", "*"} else _name(each) for each in words]
    yield f"### {' '.join(['framework-app', name, *spelled])}\n\n{text[:1].upper()}{text[1:]}.\n"
    own = [each for each in _options(name) if each.option_strings[-1] not in SHARED]
    if words or own:
        yield "| word or option | meaning |\n|---|---|"
        yield from (_row(name, each) for each in [*words, *own])
    if also := [each.option_strings[-1] for each in _options(name) if each.option_strings[-1] in SHARED]:
        yield f"\nAlso {', '.join(f'`{option}`' for option in also)}."


def _name(word: argparse.Action) -> str:
    return str(word.metavar or word.dest.upper())


def _options(name: str) -> list[argparse.Action]:
    actions = parser_of(name)._actions
    return [each for each in actions if each.option_strings and each.help != argparse.SUPPRESS and each.dest != "help"]


def _row(command: str, action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else f" {action.metavar or '|'.join(action.choices or ())}"
    spelled = ", ".join(action.option_strings) + (f" [{value.strip()}]" if action.nargs == "?" else value)
    shown = parser_of(command)._get_formatter()._expand_help(action) if action.help else ""
    return f"| `{_cell(spelled if action.option_strings else _name(action))}` | {_cell(shown)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
