"""The index of messages by key: one row a group of writes, with the hashes of all its messages' keys and their ids.

Made for writers: a key costs twelve bytes at the end of a table, where a tree of hashes would cost a page each. A look
up goes back through time and reads four bytes a key, a few hundredths of a second for a million messages. A hash may be
another key's, so readers compare the key itself; rows of deleted messages lead nowhere.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from struct import pack, unpack_from
from zlib import crc32

_HASH_BYTES = 4
_ID_BYTES = 8


def key_hash(topic: str, key: str) -> int:
    return crc32(f"{topic}#{key}".encode("utf-8", "surrogatepass"))


def write(connection: sqlite3.Connection, stored_ms: int, hashes: Sequence[int], messages: Sequence[int]) -> None:
    """Note down which message has which key, one beside the other."""
    count = len(hashes)
    connection.execute(
        "INSERT INTO message_keys (stored_ms, hashes, messages) VALUES (?, ?, ?)",
        (stored_ms, pack(f">{count}I", *hashes), pack(f">{count}q", *messages)),
    )


def find(connection: sqlite3.Connection, hash_: int, since_ms: int, until_ms: int) -> Iterator[int]:
    """Ids of messages stored in that time whose key may have the hash, the newest first."""
    wanted = pack(">I", hash_)
    rows = connection.execute(
        "SELECT hashes, messages FROM message_keys"
        " WHERE stored_ms BETWEEN ? AND ? AND instr(hashes, ?) ORDER BY id DESC",
        (since_ms, until_ms, wanted),
    )
    for hashes, messages in rows:
        at = hashes.rfind(wanted)
        while at >= 0:
            # Bytes of two neighbours may look like a hash as well.
            if at % _HASH_BYTES == 0:
                yield unpack_from(">q", messages, at // _HASH_BYTES * _ID_BYTES)[0]
            at = hashes.rfind(wanted, 0, at + _HASH_BYTES - 1)
