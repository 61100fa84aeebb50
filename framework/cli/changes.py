"""How a command that changes a cluster asks first and leaves a trace: plan, question, audit line."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from typing import Any

from framework.cli import output
from framework.cli.exit_codes import ExitCode
from framework.cli.shown.explained import CommandRefused
from framework.cli.table import Column, instant, write, write_json
from framework.harmless import plain
from framework.net.real_clock import RealClock


def add_change(parser: argparse.ArgumentParser) -> None:
    """Options of every command that changes something."""
    parser.add_argument("--dry-run", action="store_true", help="show what would be done, and do nothing")
    parser.add_argument("--yes", action="store_true", help="do it without asking; needed without a terminal")


def check_askable(arguments: argparse.Namespace) -> None:
    """Refuse where somebody would have to be asked, and nobody can be."""
    is_asked = not (arguments.dry_run or arguments.yes)
    if is_asked and (arguments.json or not sys.stdin.isatty() or not sys.stderr.isatty()):
        raise CommandRefused("this is no terminal to ask at; add --yes to do it, or --dry-run to see what it would do")


def is_agreed(
    arguments: argparse.Namespace, command: str, summary: str, columns: Sequence[Column], rows: list[dict[str, Any]]
) -> bool:
    """Show the plan, then ask whether to carry it out; where there is nothing to do nobody is asked."""
    if arguments.json:
        write_json(rows)
    else:
        output.say(summary)
        write(columns, rows)
    if arguments.dry_run:
        output.tell(f"{command}: nothing was changed (--dry-run)")
        return False
    if rows and not is_confirmed(arguments, f"{summary}. {command.rpartition(' ')[2].capitalize()}?"):
        output.tell(f"{command}: nothing was changed")
        return False
    return True


def undone(arguments: argparse.Namespace) -> ExitCode:
    """How a command ends that was not to do it."""
    return ExitCode.CLEAN if arguments.dry_run else ExitCode.FAILED


def is_confirmed(arguments: argparse.Namespace, question: str) -> bool:
    """Whether to go on: `--yes`, or a `y` in answer to the question. Anything else is no."""
    if arguments.yes:
        return True
    sys.stderr.write(f"{plain(question)} [y/N] ")
    sys.stderr.flush()
    try:
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        output.tell()
        output.tell("nothing was changed")
        raise
    if not answer:
        output.tell()  # Ctrl-D writes none
    return answer.strip().lower() in {"y", "yes"}


def audit(what: str, **facts: object) -> None:
    """One line on stderr: when, who, where from, and what was changed. For the log of whoever runs the command."""
    told = " ".join(f"{name}={_value(str(value))}" for name, value in facts.items())
    output.tell(f"audit: {instant(RealClock().now_ms())} {who()} {what} {told}")


def _value(text: str) -> str:
    """As a word: in quotes where it has blanks, or would be none."""
    return json.dumps(text, ensure_ascii=False) if " " in text or not text else text


def who() -> str:
    """`user@host` of this process."""
    return f"{_user()}@{platform.node()}"


def _user() -> str:
    return os.environ.get("SUDO_USER") or os.environ.get("USER") or f"uid-{os.getuid()}"
