"""Show a running application: what is wrong, then a line for each group. Reads only, until a key pauses or resumes.

On a terminal the table is drawn anew each second: j, k or the arrows choose a group, p pauses it, r resumes it (y
confirms), q leaves. Elsewhere it is printed again and again, with --json one object a group. HANDLED/s and FAILED/s are
of the time between two looks. RETRIES HERE wait in these processes; how many wait at brokers for their delay to be over
is known to nobody. `-` is not known; `12,310+` is at least that.
"""

from __future__ import annotations

import argparse
import json
from threading import Event
from typing import Any

from framework.cli import changes, options, output, table
from framework.cli.exit_codes import ExitCode
from framework.cli.live import figures, screen
from framework.cli.live.find import Unfound, add_target, ask_at, find
from framework.cli.table import instant
from framework.net.control.asking import workers_of
from framework.net.real_clock import RealClock

EXAMPLES = """\
examples:
  framework-app top
  framework-app top --count 1              one table, for a script or a ticket
  framework-app top --json --every 10s     a line for each group each 10 s
"""
FIRST_SECONDS = 1.0
"""Between the first two looks: rates need two."""
ACTS = {"p": "pause", "r": "resume"}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--every", metavar="1s", type=options.length, default="1s", help="how often (default 1s)")
    parser.add_argument(
        "--count", metavar="N", type=options.number(1, 10**9), help="end after so many tables; else at Ctrl-C, or q"
    )
    add_target(parser)


def execute(arguments: argparse.Namespace) -> int:
    from framework.model.durations import to_ms

    watch = Watch(arguments, to_ms(arguments.every) / 1000)
    try:
        if screen.is_there() and not arguments.json and arguments.count is None:
            return _on_a_terminal(watch)
        return _in_a_pipe(watch, arguments)
    except KeyboardInterrupt:
        return ExitCode.CLEAN
    finally:
        for what, group, failed in watch.audits:
            changes.audit(what, group=group, application=watch.name, failed=failed)


class Watch:
    """The application that is looked at, and what was seen of it last."""

    def __init__(self, arguments: argparse.Namespace, seconds: float) -> None:
        self._path = find(arguments)
        self.seconds = max(seconds, 0.1)
        self._before: list[dict[str, Any]] = []
        self.audits: list[tuple[str, str, int]] = []
        """What was changed by keys: said when the terminal is as it was."""
        self.name = ""

    def look(self) -> figures.Figures:
        now = workers_of(ask_at(self._path, {"ask": "snapshot"}))
        found = figures.figures(self._before, now)
        self._before = now
        self.name = next((each["snapshot"]["name"] for each in now if "snapshot" in each), self.name)
        return found

    def change(self, what: str, group: str) -> str:
        """Have it done in every process; what came of it, in a line."""
        answers = workers_of(ask_at(self._path, {"ask": what, "group": group, "by": changes.who()}))
        failed = [str(each["error"]) for each in answers if "error" in each]
        self.audits.append((what, group, len(failed)))
        return f"{what} {group}: {'; '.join(failed) or 'done'}"


def _in_a_pipe(watch: Watch, arguments: argparse.Namespace) -> ExitCode:
    watch.look()
    Event().wait(min(watch.seconds, FIRST_SECONDS))
    shown = 0
    while True:
        found = watch.look()
        if arguments.json:
            at = instant(RealClock().now_ms())
            for row in found.rows or [{}]:
                output.say(json.dumps({"at": at, "ok": found.is_well, "troubles": found.troubles, **row}))
        else:
            for line in [*_head(found), *figures.lines_of(found)]:
                output.say(line)
        shown += 1
        if shown == arguments.count or output.is_unheard():
            return ExitCode.CLEAN
        if not arguments.json:
            output.say("")
        Event().wait(watch.seconds)


def _head(found: figures.Figures) -> list[str]:
    said = table.bold(found.verdict) if found.is_well else table.alarm(found.verdict)
    told = [*(f"! {trouble}" for trouble in found.troubles), *found.pauses]
    return [said, *(table.caution(each) for each in told), ""]


def _on_a_terminal(watch: Watch) -> ExitCode:
    view = View(watch)
    view.look()  # where nobody answers, nothing is drawn
    with screen.Screen() as terminal:
        while True:
            try:
                view.look()
            except Unfound as error:
                view.gone(str(error))
            key: str | None = None
            while True:
                terminal.draw(view.lines())
                key = terminal.key(watch.seconds)
                if key is None:
                    break
                if not view.press(key):
                    return ExitCode.CLEAN


class View:
    """What is on the terminal: the figures, which group is chosen, and what is being asked."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._found = figures.Figures("looking", is_well=True)
        self._chosen = 0
        self._asked: tuple[str, str] | None = None
        """What to do with which group, while it waits for a yes."""
        self._said = ""

    def look(self) -> None:
        self._found = self._watch.look()
        self._chosen = max(min(self._chosen, len(self._found.rows) - 1), 0)

    def gone(self, reason: str) -> None:
        """It does not answer any more; it may come back."""
        self._found = figures.Figures(reason, is_well=False)

    def press(self, key: str) -> bool:
        """Whether it goes on."""
        if self._asked is not None:
            (what, group), self._asked = self._asked, None
            self._said = f"{what} {group}: nothing was changed"
            if key in {"y", "Y"}:
                try:
                    self._said = self._watch.change(what, group)
                except Unfound as error:
                    self._said = str(error)
            return bool(key)
        last = max(len(self._found.rows) - 1, 0)
        match key:
            case "" | "q" | "Q" | "\x04":
                return False
            case "j" | "\x1b[B" | "\x1bOB":
                self._chosen = min(self._chosen + 1, last)
            case "k" | "\x1b[A" | "\x1bOA":
                self._chosen = max(self._chosen - 1, 0)
            case "p" | "r" if self._found.rows:
                self._asked = ACTS[key], str(self._found.rows[self._chosen]["group"])
                self._said = ""
        return True

    def lines(self) -> list[str]:
        title, *rows = figures.lines_of(self._found)
        marked = [f"{'>' if index == self._chosen else ' '} {row}" for index, row in enumerate(rows)]
        foot = self._said
        if self._asked is not None:
            foot = f"{self._asked[0]} {self._asked[1]} in every process? y/N"
        keys = "j k choose   p pause   r resume   q leave"
        return [*_head(self._found), f"  {title}", *marked, "", table.caution(foot), keys]
