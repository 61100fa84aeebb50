"""How a command that changes a cluster asks first and leaves a trace: plan, question, audit line."""

from __future__ import annotations

import argparse
import os
import platform
import sys

from framework.cli.exit_codes import ExitCode
from framework.cli.table import instant, plain
from framework.net.real_clock import RealClock


def add_change(parser: argparse.ArgumentParser) -> None:
    """Options of every command that changes something."""
    parser.add_argument("--dry-run", action="store_true", help="show what would be done, and do nothing")
    parser.add_argument("--yes", action="store_true", help="do it without asking; needed where nobody can answer")


def refusal(arguments: argparse.Namespace) -> str:
    """Why nothing may be asked here: empty where it may, or need not."""
    if arguments.dry_run or arguments.yes:
        return ""
    if arguments.json or not sys.stdin.isatty() or not sys.stderr.isatty():
        return "nobody can be asked here; add --yes to do it, or --dry-run to see what it would do"
    return ""


def refuse(command: str, why: str) -> ExitCode:
    """Say why, as a usage error."""
    sys.stderr.write(f"framework-app {command}: {why}\n")
    return ExitCode.USAGE


def is_confirmed(arguments: argparse.Namespace, question: str) -> bool:
    """Whether to go on: `--yes`, or a `y` in answer to the question. Anything else is no."""
    if arguments.yes:
        return True
    sys.stderr.write(f"{plain(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def audit(what: str, **facts: object) -> None:
    """One line on stderr: when, who, where from, and what was changed. For the log of whoever runs the command."""
    who = f"{_user()}@{platform.node()}"
    told = " ".join(f"{name}={plain(str(value))}" for name, value in facts.items())
    sys.stderr.write(f"audit: {instant(RealClock().now_ms())} {who} {what} {told}\n")


def _user() -> str:
    return os.environ.get("SUDO_USER") or os.environ.get("USER") or f"uid-{os.getuid()}"
