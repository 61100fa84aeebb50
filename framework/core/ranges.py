"""Ranges: which offsets above the lowest unfinished message have ended, as a record that another owner may skip by.

A record is an instruction to skip, so a wrong one loses messages: after a reset, in a topic that was made again, or in
a log that lost its tail, the same offsets hold other messages. So it carries what tells two messages at one offset
apart, for the one at its low end and for the last one that it covers. A log is only appended to: where both are still
the same, so is everything between. In any other case it is thrown away: repeats, never skips. Pure.
"""

from __future__ import annotations

import hmac
import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import pbkdf2_hmac, sha256
from typing import Any, NamedTuple

from framework.core import limits
from framework.core.window import Window
from framework.errors import StoreError, shorten
from framework.model.message import Message
from framework.model.pulled import Found
from framework.model.queue import MessageQueue

FORMAT = 1
Range = tuple[int, int]
"""From the first offset to the one behind the last."""


class Mark(NamedTuple):
    """A message as another one at its offset would not be: when it was stored, and where in its broker's log."""

    offset: int
    stored_ms: int
    log_offset: int


def mark_of(message: Message) -> Mark:
    return Mark(message.queue_offset, message.stored_ms, message.commit_log_offset)


@dataclass(frozen=True, slots=True)
class Finished:
    """What has ended above a gap: the message that everything waits for, the ranges, the last message they cover."""

    low: Mark
    ranges: tuple[Range, ...]
    last: Mark


def finished_above(window: Window, inherited: Finished | None = None) -> Finished | None:
    """Read the ranges from the bitmaps of a window that was just settled; None where nothing has ended above a gap.

    What the last owner's record covered stays covered until the committable offset has passed it: none of it is in the
    window. A range ends with a message that is known: what a broker filtered out behind it could not be told from
    something new.
    """
    chunks = window.chunks
    low = next((chunk.messages[chunk.low] for chunk in chunks if chunk.low < chunk.count), None)
    if low is None:
        return None
    ranges: list[Range] = []
    last: Mark | None = None
    for chunk in chunks:
        # `low` first: a thread that ends messages meanwhile then shows fewer ends, never more.
        start, ahead, messages = chunk.low, chunk.ahead, chunk.messages
        if start >= chunk.count:
            ranges.append((chunk.begin, chunk.end))
            if messages:
                last = mark_of(messages[-1])
            elif chunk.last is not None:
                last = Mark(*chunk.last)
            continue
        if start:
            ranges.append((chunk.begin, messages[start].queue_offset))
            last = mark_of(messages[start - 1])
        for begin, end in _runs(ahead):
            behind = messages[end].queue_offset if end < chunk.count else chunk.end
            ranges.append((messages[begin].queue_offset, behind))
            last = mark_of(messages[end - 1])
    if inherited is not None and inherited.last.offset > low.queue_offset:
        ranges += inherited.ranges
        last = max(last, inherited.last) if last is not None else inherited.last
    if last is None:
        return None
    above = joined(ranges, low.queue_offset + 1, last.offset + 1)
    return Finished(mark_of(low), above, last) if above else None


def _runs(bits: int) -> list[Range]:
    """The runs of set bits, lowest first, as [from, to)."""
    runs: list[Range] = []
    at = 0
    while bits:
        zeros = (bits & -bits).bit_length() - 1
        bits >>= zeros
        ones = (~bits & (bits + 1)).bit_length() - 1
        bits >>= ones
        runs.append((at + zeros, at + zeros + ones))
        at += zeros + ones
    return runs


def joined(ranges: Sequence[Range], begin: int, end: int) -> tuple[Range, ...]:
    """The ranges in order, those that touch as one, cut to [begin, end)."""
    found: list[Range] = []
    for one in sorted(ranges):
        first, behind = max(one[0], begin), min(one[1], end)
        if first >= behind:
            continue
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], behind)
        else:
            found.append((first, behind))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ProgressRecord:
    """One queue's finished ranges, as a store keeps them. An empty one says: what was kept before counts no more."""

    queue: MessageQueue
    epoch: int = -1
    """The acquisition that wrote it; -1 in the first one of an acquisition, which only its store can number."""
    finished: Finished | None = None
    owner: str = ""
    """The member that wrote it; empty where it did not say."""
    is_released: bool = False
    """The owner is done with the queue: nothing of it runs here any more, and its offset is confirmed."""

    def encode(self) -> bytes:
        """Compact, and still to be read by a person with mqadmin. `runs`: gap, range, gap, range... from `low` on."""
        found = self.finished
        text: dict[str, Any] = {
            "v": FORMAT, "topic": self.queue.topic, "broker": self.queue.broker, "queue": self.queue.number,
            "epoch": self.epoch,
        }  # fmt: skip
        if found is not None:
            at, runs = found.low.offset, list[int]()
            for begin, end in found.ranges:
                runs += (begin - at, end - begin)
                at = end
            text |= {"low": found.low, "last": found.last, "runs": runs}
        if self.owner:
            text["owner"] = self.owner
        if self.is_released:
            text["released"] = True
        return json.dumps(text, separators=(",", ":")).encode()


def within_limit(record: ProgressRecord) -> tuple[ProgressRecord, bytes]:
    """The record and its bytes; folded to an empty one where they would be too many, so that a flush never fails."""
    content = record.encode()
    if len(content) <= limits.RECORD_BYTES_MAX:
        return record, content
    folded = replace(record, finished=None)
    return folded, folded.encode()


def decode(content: bytes, queue: MessageQueue) -> ProgressRecord:
    """The record of this queue, or StoreError with what is wrong."""
    if len(content) > 2 * limits.RECORD_BYTES_MAX:
        raise StoreError(f"progress of {queue}: {len(content)} bytes are none of ours")
    try:
        text = json.loads(content)
        if text["v"] != FORMAT or MessageQueue(text["topic"], text["broker"], text["queue"]) != queue:
            raise StoreError(f"progress of {queue}: a record of something else")
        owner, is_released = str(text.get("owner", "")), text.get("released") is True
        return ProgressRecord(
            queue, int(text["epoch"]), _finished(text) if "runs" in text else None, owner, is_released
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise StoreError(f"progress of {queue}: not a record ({shorten(error)})") from None


def _finished(text: dict[str, Any]) -> Finished:
    low, last = Mark(*map(int, text["low"])), Mark(*map(int, text["last"]))
    lengths = [int(length) for length in text["runs"]]
    if not lengths or len(lengths) % 2 or min(lengths) < 1:
        raise ValueError("runs that no ranges make")
    at, ranges = low.offset, list[Range]()
    for gap, run in zip(lengths[::2], lengths[1::2], strict=True):
        ranges.append((at + gap, at + gap + run))
        at += gap + run
    if low.offset < 0 or last.offset != at - 1:
        raise ValueError("ranges that end elsewhere than their last message")
    return Finished(low, tuple(ranges), last)


def why_not(found: Finished, stored: int | None, at_low: Mark | None, at_last: Mark | None) -> str | None:
    """Why ranges must not be skipped by whoever begins at `stored`; None where they may.

    `at_low` and `at_last`: the messages that are there now.
    """
    if stored is None or stored < found.low.offset:
        return f"the group begins at {'no stored offset' if stored is None else stored}, below {found.low.offset}"
    if at_low != found.low:
        return f"another message is at {found.low.offset} now"
    if at_last != found.last:
        return f"another message is at {found.last.offset} now"
    return None


@dataclass(slots=True)
class Passing:
    """What a new owner passes over: each pull's answer is cut by it until the ranges are behind."""

    ranges: tuple[Range, ...]

    @property
    def end(self) -> int:
        return self.ranges[-1][1]

    def covers(self, offset: int) -> bool:
        at = bisect_right(self.ranges, offset, key=lambda each: each[0]) - 1
        return at >= 0 and offset < self.ranges[at][1]

    def cut(self, found: Found) -> Found:
        """The answer without messages that have ended; itself where it has none of them."""
        left = [message for message in found.messages if not self.covers(message.queue_offset)]
        if len(left) == len(found.messages):
            return found
        return Found(left, found.size, found.next_offset, found.min_offset, found.max_offset)


# Proofs: keyed hashes, by which members of a group know what another member has written. Brokers that cannot keep
# strangers from a group's topics still do not give them its key. The key is made from a secret slowly, because whoever
# reads a proof may try secrets on it.
ROUNDS = 100_000
"""Some 50 ms, once per process and secret."""
SALT = b"framework-app proof 1"
LENGTH = 16
"""Bytes: nobody meets 2**128 by trying at a broker."""


@lru_cache(maxsize=4)
def key_of(secret: str) -> bytes:
    return pbkdf2_hmac("sha256", secret.encode("utf-8", "surrogatepass"), SALT, ROUNDS)


def proof_of(key: bytes, *said: bytes) -> str:
    """Of all that is said, in this order; each part stands with its length, so that none can pass for two."""
    parts = b"".join(b"%d:%b" % (len(part), part) for part in said)
    return hmac.new(key, parts, sha256).digest()[:LENGTH].hex()


def is_proof(text: str, of: str) -> bool:
    """Whether this is that proof, in a time that tells nothing of it."""
    return hmac.compare_digest(text.encode("utf-8", "replace"), of.encode())
