"""The offset file of a broadcasting group: how far this process has come, as bytes that show any damage.

One line of header with a checksum over what follows, then JSON that people can read. A group has two such files and
saves go to them in turn, so that whatever happens to the newer one, the older is one save behind and untouched. Pure:
where the files lie and when they are written is `services/offsets/local_offsets.py`'s.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from framework.errors import StoreError, shorten
from framework.model.queue import MessageQueue

FORMAT = "framework-app offsets 1"
BYTES_MAX = 16 << 20  # some hundred thousand queues; whatever is larger is not ours


@dataclass(frozen=True, slots=True)
class SavedOffsets:
    """What one file says. Each offset is the *next* one to handle."""

    group: str
    sequence: int = 0
    """Raised by each save: of two readable files the higher one counts."""
    offsets: Mapping[MessageQueue, int] = field(default_factory=dict)


def encode(saved: SavedOffsets) -> bytes:
    rows = [
        {"topic": queue.topic, "broker": queue.broker, "queue": queue.number, "offset": offset}
        for queue, offset in sorted(saved.offsets.items())
    ]
    body = json.dumps({"group": saved.group, "sequence": saved.sequence, "offsets": rows}, indent=1).encode() + b"\n"
    return b"%s crc32=%08x bytes=%d\n" % (FORMAT.encode(), zlib.crc32(body), len(body)) + body


def decode(content: bytes, group: str) -> SavedOffsets:
    """What the file says, or StoreError with what is wrong with it."""
    head, _, body = content[:BYTES_MAX].partition(b"\n")
    if head != b"%s crc32=%08x bytes=%d" % (FORMAT.encode(), zlib.crc32(body), len(body)):
        raise StoreError("its checksum does not fit its content")
    try:
        found = json.loads(body)
        saved = SavedOffsets(
            str(found["group"]),
            int(found["sequence"]),
            {
                MessageQueue(str(row["topic"]), str(row["broker"]), int(row["queue"])): int(row["offset"])
                for row in found["offsets"]
            },
        )
    except (ValueError, KeyError, TypeError) as error:  # a right checksum over something that we never wrote
        raise StoreError(f"not an offset file: {shorten(error)}") from None
    if saved.group != group:
        raise StoreError(f"it is of group {saved.group!r}")
    if any(offset < 0 for offset in saved.offsets.values()):
        raise StoreError("an offset below 0")
    return saved


def newest(contents: Mapping[str, bytes | None], group: str) -> tuple[SavedOffsets | None, dict[str, str]]:
    """The newest readable state of a group's files, and what is wrong with each damaged one, by its path.

    None where there is no file at all. StoreError where there are only damaged ones: beginning anew would skip or
    repeat without anybody having wished for it.
    """
    readable: list[SavedOffsets] = []
    damaged: dict[str, str] = {}
    for path, content in contents.items():
        if content is None:
            continue
        try:
            readable.append(decode(content, group))
        except StoreError as error:
            damaged[path] = str(error)
    if readable:
        return max(readable, key=lambda saved: saved.sequence), damaged
    if damaged:
        complaints = "; ".join(f"{path}: {reason}" for path, reason in damaged.items())
        raise StoreError(
            f"the offsets of broadcasting group {group!r} cannot be read ({complaints}); restore one of the files "
            "from a copy, or remove them all, and the group begins where its `start` setting says"
        )
    return None, damaged
