"""The index of messages by key: one row a group of writes, with the hashes of all its messages' keys and their ids.

Made for writers: a key costs twelve bytes at the end of a table, where a tree of hashes would cost a page each. A look
up goes back through time, stretch by stretch, and reads four bytes a key, a few hundredths of a second for a million
messages. A hash may be another key's, so readers compare the key itself; rows of deleted messages lead nowhere.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from struct import pack, unpack_from
from zlib import crc32

ROW_KEYS_MAX = 2000  # as many as a group of small messages has
STRETCH_ROWS = 256  # looked through at a time: two MiB of hashes at most
_HASH_BYTES = 4
_ID_BYTES = 8
_LAST = 2**63 - 1


def key_hash(topic: str, key: str) -> int:
    return crc32(f"{topic}#{key}".encode("utf-8", "surrogatepass"))


def write(connection: sqlite3.Connection, stored_ms: int, hashes: Sequence[int], messages: Sequence[int]) -> None:
    """Note down which message has which key, one beside the other."""
    for at in range(0, len(hashes), ROW_KEYS_MAX):
        some, ids = hashes[at : at + ROW_KEYS_MAX], messages[at : at + ROW_KEYS_MAX]
        connection.execute(
            "INSERT INTO message_keys (stored_ms, hashes, messages) VALUES (?, ?, ?)",
            (stored_ms, pack(f">{len(some)}I", *some), pack(f">{len(ids)}q", *ids)),
        )


def find(connection: sqlite3.Connection, hash_: int, since_ms: int, until_ms: int) -> Iterator[int | None]:
    """Ids of messages stored in that time whose key may have the hash, each once, the newest first; None after each
    stretch of the index. Between two of them no search is open, which would keep the write-ahead log from being folded.
    """
    wanted, seen = pack(">I", hash_), set[int]()
    first = _LAST
    while True:
        # Times never fall along the index.
        row = connection.execute(
            "SELECT id, stored_ms FROM message_keys WHERE id <= ? ORDER BY id DESC LIMIT 1", (first,)
        ).fetchone()
        if row is None or row[1] < since_ms:
            return
        last, first = row[0], row[0] - STRETCH_ROWS
        rows = connection.execute(
            "SELECT hashes, messages FROM message_keys WHERE id > ? AND id <= ?"
            " AND stored_ms BETWEEN ? AND ? AND instr(hashes, ?) ORDER BY id DESC",
            (first, last, since_ms, until_ms, wanted),
        ).fetchall()
        for hashes, messages in rows:
            at = hashes.rfind(wanted)
            while at >= 0:
                # Bytes of two neighbours may look like a hash as well.
                if at % _HASH_BYTES == 0:
                    message = unpack_from(">q", messages, at // _HASH_BYTES * _ID_BYTES)[0]
                    if message not in seen:
                        seen.add(message)
                        yield message
                at = hashes.rfind(wanted, 0, at + _HASH_BYTES - 1)
        yield None
