"""Receipts of popped messages: the text that an acknowledgement names its message by.

Eight words: where the pop began, when it was, the invisible time, the revive queue, whether the message is a retry,
broker, queue, offset. An answer has them once per queue; its reader puts each message's receipt together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from framework.errors import ProtocolError, shorten

RECEIPT = "POP_CK"
"""The property of a retry's record that is its receipt."""
FIRST_POP = "1ST_POP_TIME"
ORIGIN_GROUP = "ORIGIN_GROUP"
"""The group whose popped message came back, on the retry's record."""
ORDERLY_REVIVE_QUEUE = 999
NORMAL, RETRY = "0", "1"
_WORDS = (7, 8)


class Receipt(NamedTuple):
    """What one pop of one message is known by."""

    start: int
    popped_ms: int
    invisible_ms: int
    revive_queue: int
    retry: str
    broker: str
    queue: int
    offset: int

    @property
    def text(self) -> str:
        return " ".join(str(word) for word in self)

    def renewed(self, popped_ms: int, invisible_ms: int, revive_queue: int) -> Receipt:
        """The one that counts after its invisible time was changed."""
        return self._replace(
            start=self.offset, popped_ms=popped_ms, invisible_ms=invisible_ms, revive_queue=revive_queue
        )


def read_receipt(text: str, offset: int = 0) -> Receipt:
    """The receipt; `offset` counts where it has none of its own. Raises ProtocolError."""
    words = text.split(" ")
    if len(words) not in _WORDS:
        raise ProtocolError(f"receipt {shorten(text)}: {len(words)} words, not 7 or 8")
    start, popped_ms, invisible_ms, revive_queue, retry, broker, queue, *own = words
    try:
        return Receipt(
            int(start), int(popped_ms), int(invisible_ms), int(revive_queue), retry, broker, int(queue),
            int(own[0]) if own else offset,
        )  # fmt: skip
    except ValueError as error:
        raise ProtocolError(f"receipt {shorten(text)}: {error}") from None


class PoppedShare(NamedTuple):
    """What one pop took of one queue."""

    retry: str
    queue: int
    start: int
    offsets: Sequence[int]


def start_info(shares: Iterable[PoppedShare]) -> str:
    return ";".join(f"{share.retry} {share.queue} {share.start}" for share in shares)


def offset_info(shares: Iterable[PoppedShare]) -> str:
    return ";".join(f"{share.retry} {share.queue} {','.join(map(str, share.offsets))}" for share in shares)


def read_starts(text: str) -> dict[tuple[str, int], int]:
    """Where the pop began in each queue, from a `start_info`. Raises ProtocolError."""
    starts: dict[tuple[str, int], int] = {}
    try:
        for part in filter(None, text.split(";")):
            retry, queue, start = part.split(" ")
            starts[retry, int(queue)] = int(start)
    except ValueError:
        raise ProtocolError(f"startOffsetInfo {shorten(text)}: not three words per queue") from None
    return starts
