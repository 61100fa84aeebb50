"""Death reason: what a dead letter says of its end, in properties of its own. Pure.

What a handler or an exception said goes into a property, so its separators and line ends become blanks, and its length
has a limit: properties share 32 KB with those of the sender, which come first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from framework import authors
from framework.model.message import Message
from framework.model.queue import MessageQueue

REASON = "DEAD_LETTER_REASON"
ERROR = "DEAD_LETTER_ERROR"
TIME = "DEAD_LETTER_TIME"
MEMBER = "DEAD_LETTER_MEMBER"
ATTEMPTS = "DEAD_LETTER_ATTEMPTS"
ORIGIN = "DEAD_LETTER_ORIGIN"
LINE = "DEAD_LETTER_LINE"
REPLAY_OF = "DEAD_LETTER_REPLAY"
"""On what was sent once more: the place of the dead letter that it was made from. No word of an end: it stays."""
NAMES = frozenset({REASON, ERROR, TIME, MEMBER, ATTEMPTS, ORIGIN, LINE})

REASON_BYTES_MAX = 1_024
ERROR_BYTES_MAX = 128


@dataclass(frozen=True, slots=True)
class DeathReason:
    """Why a message became a dead letter, and where."""

    reason: str
    error: str
    """The exception's class; empty where the handler answered, or took too long."""
    at_ms: int
    member: str
    line: str = ""
    """Where the exception was raised; empty where there is none."""

    def properties(self, message: Message, origin: str) -> dict[str, str]:
        """As the copy carries them, without those that are empty."""
        texts = {
            REASON: plain(self.reason, REASON_BYTES_MAX),
            ERROR: plain(self.error, ERROR_BYTES_MAX),
            TIME: str(self.at_ms),
            MEMBER: plain(self.member, ERROR_BYTES_MAX),
            ATTEMPTS: str(message.attempt),
            ORIGIN: origin,
            LINE: plain(self.line, ERROR_BYTES_MAX),
        }
        return {name: text for name, text in texts.items() if text}


def line_of(error: BaseException | None) -> str:
    """`orders.py:41`: the line of its author's code, the file from its top package on; empty where there is none."""
    found = authors.line_of(error)
    if found is None:
        return ""
    frame, number = found
    parts = frame.f_code.co_filename.split("/")
    depth = str(frame.f_globals.get("__name__", "")).count(".") + (parts[-1] == "__init__.py")
    return f"{'/'.join(parts[-depth - 1 :])}:{number}"


def origin_of(queue: MessageQueue, offset: int) -> str:
    """`topic@broker:queue:offset`."""
    return f"{queue.topic}@{queue.broker}:{queue.number}:{offset}"


def plain(text: str, bytes_max: int) -> str:
    """On one line, without control characters, legal as a property, and no longer than that in UTF-8."""
    signs = "".join(sign if sign.isprintable() else " " for sign in text[: 4 * bytes_max])
    data = " ".join(signs.split()).encode("utf-8", "replace")
    if len(data) > bytes_max:
        data = data[: bytes_max - 3] + b"..."
    return data.decode("utf-8", "ignore")


def without_death_reason(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of a message that starts anew: nothing of an earlier end, or of its sender."""
    return {name: value for name, value in properties.items() if name not in NAMES}
