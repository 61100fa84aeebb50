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
import threading
from collections.abc import Mapping
from typing import NamedTuple

from framework.model.queue import MessageQueue

_HEAD = struct.Struct("<IIBxxxI")
"""Which version of what is accused, its length, whether the process has ended in order; the length of all places."""
_NOTE = struct.Struct("<BxHxxxxq")
"""State, place, offset: what each message costs."""
_NAME = struct.Struct("<Hxx64s")
"""Attempt and message id, of those that are asked for by name."""
_NAME_AT, _NAME_MAX = _NOTE.size, 64
_NOTE_BYTES = 96
_ACCUSED_BYTES = 1 << 16
_PLACES_BYTES = 1 << 20
_NOTES_AT = _ACCUSED_BYTES + _PLACES_BYTES
_NOTES_MAX = 2048
"""Messages in hand at once; what is above that goes without a note."""
_BYTES = _NOTES_AT + _NOTES_MAX * _NOTE_BYTES
_OVER_AT, _PLACES_LENGTH_AT = 8, 12
ALONE_FROM = 2
"""After so many ends a message runs alone: others were in hand as well, in this process or in another one."""
ENDS_MAX = 3
"""So many ends with one message in hand, the last of them alone, are no accident."""
FREE, RUNS, NAMED, ENDS, ALONE = 0, 1, 2, 4, 8
"""What is written of a note's state, as bits."""
NOWHERE = -1


class Note(NamedTuple):
    """One message in hand."""

    group: str
    place: str
    """Of its handler, in the source."""
    queue: str
    offset: int
    message_id: str
    """Empty in a note that has no name; a message that was in hand at an end before has one."""
    attempt: int
    is_certain: bool
    """Its handler said itself that the process ends."""
    is_alone: bool = False
    """It was accused, and no other one that was ran beside it."""

    @property
    def keys(self) -> tuple[str, ...]:
        there = key_of_place(self.group, self.queue, self.offset)
        return (there, key_of_name(self.group, self.message_id)) if self.message_id else (there,)

    def __str__(self) -> str:
        return f"{self.group} {self.message_id or f'{self.queue}+{self.offset}'} {self.place}"


class EndsSoFar(NamedTuple):
    """How often a message was in hand when a process ended, and the last attempt of those; 0 where nobody knows it."""

    times: int
    attempt: int


def key_of_place(group: str, queue: object, offset: int) -> str:
    return f"{group} {queue}+{offset}"


def key_of_name(group: str, message_id: str) -> str:
    """Of its copies, too, which have other places."""
    return f"{group} {message_id[:_NAME_MAX]}"


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
        self.has_names = False
        """Whether any of what is accused is known by its name."""
        self._places: dict[tuple[str, str, MessageQueue], int] = {}
        self._places_lock = threading.Lock()
        self._free = list(range(_NOTES_AT, _BYTES, _NOTE_BYTES))[::-1]  # the first page is used first, and alone

    # The process's own side

    @property
    def accused(self) -> Mapping[str, EndsSoFar]:
        """By a note's keys. On each message's way: where nothing is new, it compares two numbers."""
        if self._versions[0] != self._version:
            version, length, *_ = _HEAD.unpack_from(self._memory)
            try:
                found = json.loads(self._memory[_HEAD.size : _HEAD.size + length])
            except ValueError:  # it is being written this very moment
                return self._accused
            self._accused, self._version = {key: EndsSoFar(*each) for key, each in found.items()}, version
            self.has_names = any(each.attempt for each in self._accused.values())
        return self._accused

    def place(self, group: str, place: str, queue: MessageQueue) -> int:
        """The number of a handler and a queue, for `begin`. NOWHERE when there is no more room for any."""
        key = (group, place, queue)
        with self._places_lock:
            if (known := self._places.get(key)) is not None:
                return known
            line = json.dumps([group, place, str(queue)]).encode() + b"\n"
            begin = _ACCUSED_BYTES + _HEAD.unpack_from(self._memory)[3]
            end = begin + len(line)
            number = len(self._places)
            if end > _NOTES_AT or number > 0xFFFF:
                return NOWHERE
            self._places[key] = number
            self._memory[begin:end] = line
            self._memory[_PLACES_LENGTH_AT : _HEAD.size] = (end - _ACCUSED_BYTES).to_bytes(4, "little")
            return number

    def begin(self, place: int, offset: int) -> int:
        """Note a message; answers where. On each message's way."""
        if place == NOWHERE:
            return NOWHERE
        try:
            at = self._free.pop()  # at once, also among threads
        except IndexError:
            return NOWHERE
        _NOTE.pack_into(self._memory, at, RUNS, place, offset)
        return at

    def name(self, at: int, message_id: str, attempt: int, *, is_alone: bool = False) -> None:
        """Have its copies known by its name as well."""
        if at != NOWHERE:
            _NAME.pack_into(self._memory, at + _NAME_AT, min(attempt, 0xFFFF), message_id.encode())
            self._memory[at] = RUNS | NAMED | (ALONE if is_alone else 0)

    def end(self, at: int) -> None:
        if at != NOWHERE:
            self._memory[at] = FREE
            self._free.append(at)

    def ends_all(self, at: int) -> None:
        """The handler of it ends the process, and no other one."""
        if at != NOWHERE:
            self._memory[at] |= ENDS

    def over(self) -> None:
        """The process ends in order: what is still in hand did not end it."""
        self._memory[_OVER_AT] = 1

    # The parent's side

    @property
    def is_over(self) -> bool:
        return bool(self._memory[_OVER_AT])

    def in_hand(self) -> list[Note]:
        """What was, where the process has ended; only what is certain, where something is."""
        length = _HEAD.unpack_from(self._memory)[3]
        places = [json.loads(line) for line in self._memory[_ACCUSED_BYTES : _ACCUSED_BYTES + length].splitlines()]
        found = []
        for at in range(_NOTES_AT, _BYTES, _NOTE_BYTES):
            state, number, offset = _NOTE.unpack_from(self._memory, at)
            if state == FREE:
                continue
            attempt, message_id = _NAME.unpack_from(self._memory, at + _NAME_AT) if state & NAMED else (0, b"")
            name = message_id.rstrip(b"\0").decode(errors="replace")
            group, place, queue = places[number]
            found.append(Note(group, place, queue, offset, name, attempt, bool(state & ENDS), bool(state & ALONE)))
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
