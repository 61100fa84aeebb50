"""What commands print: results on stdout, whose form is fixed, as other programs read them, and words on stderr.

Every line leaves by `say` or `tell`, which make it harmless: commands quote strangers as they are.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framework.harmless import escaped, plain
from framework.runtime.logs import streams

if TYPE_CHECKING:
    from framework.services.pool.run import MessageCounts

Event = dict[str, Any]

_LAST = re.compile(r"drained: handled=(\d+) retried=(\d+) dead=(\d+) left=(\d+)(?: unconfirmed=(\d+))?\n?")
REASON_SHOWN = 200
_WORDS = {"retry": "retry", "dead_lettered": "dead-lettered"}


class Painted(str):
    """A text that is harmless, but for colours of ours (`table.bold`): `say` leaves it as it is."""

    __slots__ = ()


def say(*parts: str) -> None:
    """One line, at once: somebody may be waiting for it at the other end of a pipe. One that cannot be written is
    counted (`runtime/logs/streams.py`); `is_unheard` says whether anybody reads them.
    """
    _write(_line(parts))


def say_lines(text: str) -> None:
    """A text of ours that has several."""
    for line in text.split("\n"):
        say(line)


def tell(*parts: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"{_line(parts)}\n")
    sys.stderr.flush()


def _line(parts: tuple[str, ...]) -> str:
    return "".join(part if type(part) is Painted else plain(part) for part in parts)


def _write(line: str) -> None:
    stream = streams.results()
    if stream is not sys.stdout:
        sys.stdout.flush()  # what a handler has printed comes before what became of its message
    stream.write(f"{line}\n")
    stream.flush()


def as_json(value: Any, *, indent: int | None = None) -> str:
    """One object for programs, which people see on a terminal, too. Programs read the same value."""
    return escaped(json.dumps(value, ensure_ascii=False, default=str, indent=indent), keep="\n")


def say_ready(event: Event, line: str, *, is_json: bool) -> None:
    """Once, when what is sent is handled. With `--json` on stderr: on stdout each line is a message's, or the last."""
    if is_json:
        tell(json.dumps({**event, "event": "ready"}))
    else:
        say(line)


def is_unheard() -> bool:
    """Whether the reader of our lines has gone."""
    return streams.is_unheard(streams.results())


@dataclass(slots=True)
class Totals:
    """What became of messages, over all processes."""

    handled: int = 0
    retried: int = 0
    dead_lettered: int = 0
    abandoned: int = 0
    unconfirmed: int = 0

    @classmethod
    def of(cls, counts: MessageCounts) -> Totals:
        return cls(*(getattr(counts, name) for name in cls.__slots__))

    @property
    def coming_again(self) -> int:
        return self.abandoned + self.unconfirmed

    def add(self, other: Totals) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def stopped_event(counts: Totals | MessageCounts) -> str:
    """The last line under `--json`."""
    event = {
        "event": "stopped",
        "handled": counts.handled,
        "retried": counts.retried,
        "dead_lettered": counts.dead_lettered,
        "abandoned": counts.abandoned,
    }
    return json.dumps({**event, "unconfirmed": counts.unconfirmed} if counts.unconfirmed else event)


def drained_line(counts: Totals | MessageCounts) -> str:
    """The last line for people."""
    done = f"handled={counts.handled} retried={counts.retried} dead={counts.dead_lettered}"
    unconfirmed = f" unconfirmed={counts.unconfirmed}" if counts.unconfirmed else ""
    return f"drained: {done} left={counts.abandoned}{unconfirmed}"


def mistake_event(text: str) -> str:
    """What a child's start failed by: the lines that its parent writes on stderr."""
    return json.dumps({"event": "mistake", "text": text})


def totals_in(line: str) -> Totals | None:
    """The counts of a last line in either form; None for any other line."""
    found = _LAST.fullmatch(line)
    if found is not None:
        return Totals(*(int(number) for number in found.groups(default="0")))
    event = event_in(line)
    if event is None or event.get("event") != "stopped":
        return None
    return Totals(*(int(event.get(name, 0)) for name in Totals.__slots__))


def event_in(line: str) -> Event | None:
    """A line of `--json`; None for what a handler printed."""
    if not line.startswith("{"):
        return None
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def tail_line(event: Event) -> str:
    """A line of `dev`: what became of the message, its topic, its key, by which group, and why that was not success."""
    word = _WORDS.get(event["event"], event["event"])
    shown = event.get("key") or event.get("message_id", "")
    which = [f"{name}={event[name]}" for name in ("group", "worker") if name in event]
    if event.get("attempt", 1) > 1 or event["event"] == "retry":
        which.append(f"attempt={event.get('attempt', 1)}")
    why = f": {str(event['reason'])[:REASON_SHOWN]}" if event.get("reason") else ""
    return plain(f"{word} {event.get('topic', '')} {shown} {' '.join(which)}{why}")


class EventLines:
    """Events as JSON lines, written once a turn of the loop and not once an event."""

    def __init__(self, unheard: Callable[[], None]) -> None:
        self._lines: list[str] = []
        self._unheard: Callable[[], None] | None = unheard
        """Called once, when nobody reads them any more."""

    def put(self, event: Event) -> None:
        if not self._lines:
            import asyncio  # what prints no events does without: it is half of what a probe would import

            asyncio.get_running_loop().call_soon(self.flush)
        self._lines.append(json.dumps(event))

    def flush(self) -> None:
        lines, self._lines = self._lines, []
        if lines:
            _write("\n".join(lines))
            if self._unheard is not None and is_unheard():
                self._unheard()
                self._unheard = None
