"""Notes: which messages a process is handling, in memory that its parent shares: it outlives the process.

A process that a handler ends (`sys.exit()`, `os._exit`, a segmentation fault, the kernel for want of memory) can say
nothing any more. The parent reads here what was in hand, and writes here which messages have ended processes before.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import tempfile
from collections.abc import Mapping
from typing import NamedTuple

_HEAD = struct.Struct("<IIB")
"""Which version of what is accused, its length, and whether the process has ended in order."""
_NOTE = struct.Struct("<BH64s445s")
"""State, attempt, message id, and whose: 512 bytes."""
_ACCUSED_BYTES = 1 << 16
_NOTES_MAX = 2048
"""Messages in hand at once; what is above that goes without a note."""
_BYTES = _ACCUSED_BYTES + _NOTES_MAX * _NOTE.size
_OVER_AT = 8
ENDS_MAX = 3
"""So many ends with one message in hand are no accident."""
FREE, RUNS, ENDS = range(3)
NOWHERE = -1


class Note(NamedTuple):
    """One message in hand."""

    group: str
    message_id: str
    attempt: int
    place: str
    """Of its handler, in the source."""
    is_certain: bool
    """Its handler said itself that the process ends."""

    @property
    def key(self) -> str:
        return key_of(self.group, self.message_id)


class EndsSoFar(NamedTuple):
    """How often a message was in hand when a process ended, and the last attempt of those."""

    times: int
    attempt: int


def key_of(group: str, message_id: str) -> str:
    return f"{group} {message_id}"


def shared_memory() -> int:
    """A descriptor of fresh memory for notes; the caller closes it."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("framework-notes")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.truncate(descriptor, _BYTES)
    return descriptor


class Notes:
    """Of one process: it and its parent have one each, of the same memory."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, _BYTES)
        self._versions = memoryview(self._memory)[:4].cast("I")
        self._version = 0
        self._accused: Mapping[str, EndsSoFar] = {}
        self._free = list(range(_ACCUSED_BYTES, _BYTES, _NOTE.size))[::-1]  # the first page is used first, and alone

    # The process's own side

    @property
    def accused(self) -> Mapping[str, EndsSoFar]:
        """By `key_of`. On each message's way: where nothing is new, it compares two numbers."""
        if self._versions[0] != self._version:
            version, length, _ = _HEAD.unpack_from(self._memory)
            try:
                found = json.loads(self._memory[_HEAD.size : _HEAD.size + length])
            except ValueError:  # it is being written this very moment
                return self._accused
            self._accused, self._version = {key: EndsSoFar(*each) for key, each in found.items()}, version
        return self._accused

    def begin(self, whose: bytes, message_id: str, attempt: int) -> int:
        """Note a message; answers where."""
        try:
            at = self._free.pop()  # at once, also among threads
        except IndexError:
            return NOWHERE
        _NOTE.pack_into(self._memory, at, RUNS, min(attempt, 0xFFFF), message_id.encode(), whose)
        return at

    def end(self, at: int) -> None:
        if at != NOWHERE:
            self._memory[at] = FREE
            self._free.append(at)

    def ends_all(self, at: int) -> None:
        """The handler of it ends the process, and no other one."""
        if at != NOWHERE:
            self._memory[at] = ENDS

    def over(self) -> None:
        """The process ends in order: what is still in hand did not end it."""
        self._memory[_OVER_AT] = 1

    # The parent's side

    @property
    def is_over(self) -> bool:
        return bool(self._memory[_OVER_AT])

    def in_hand(self) -> list[Note]:
        """What was, where the process has ended; only what is certain, where something is."""
        found = []
        for at in range(_ACCUSED_BYTES, _BYTES, _NOTE.size):
            state, attempt, message_id, whose = _NOTE.unpack_from(self._memory, at)
            if state != FREE:
                group, _, place = _text(whose).partition("\t")
                found.append(Note(group, _text(message_id), attempt, place, state == ENDS))
        return [note for note in found if note.is_certain] or found

    def accuse(self, ends: Mapping[str, EndsSoFar]) -> None:
        """Tell the process which messages have ended others; as many as there is room for, the last ones first."""
        chosen = dict(ends)
        while len(text := json.dumps(chosen).encode()) > _ACCUSED_BYTES - _HEAD.size:
            for key in list(chosen)[: len(chosen) // 8 + 1]:
                del chosen[key]
        self._memory[_HEAD.size : _HEAD.size + len(text)] = text
        self._memory[4:8] = len(text).to_bytes(4, "little")
        self._versions[0] += 1  # last: whoever sees it finds all of it

    def close(self) -> None:
        self._versions.release()
        self._memory.close()


def whose(group: str, place: str) -> bytes:
    return f"{group}\t{place}".encode()[:445]


def _text(field: bytes) -> str:
    return field.rstrip(b"\0").decode(errors="replace")
