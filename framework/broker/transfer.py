"""Topics with their messages, to a file and back: out of one store, into another.

The file is lines of JSON with records between them, each as a pull's answer carries it (its own length comes first):

    {"format": "framework-app broker export", "version": 1}
    {"broker": "broker-a", "topic": "orders", "read_queues": 8, "write_queues": 8, "perm": 6, "is_ordered": false}
    ...records, queue after queue, in order; then four bytes of zeros
    ...further topics
    {"messages": 1200, "crc32": 305419896}          of everything before this line

What is brought in gets new offsets and a new store time; bodies, properties, keys, tags and birth stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from zlib import crc32

from framework.broker.filters import tag_hash
from framework.broker.records import key_hashes
from framework.broker.store.database import Database
from framework.broker.store.log import Log
from framework.broker.store.queues import Queues
from framework.broker.store.topics import Topic, load_topics
from framework.broker.topic_rules import NOT_SENDABLE
from framework.errors import RecordDamaged, StoreError, shorten
from framework.mistakes import ExportWrong, UsageWrong
from framework.model.message import TAGS
from framework.wire.stored import Record, decode_records

FORMAT = "framework-app broker export"
VERSION = 1
_END = bytes(4)
_READ_COUNT, _READ_BYTES = 500, 4 * 1024 * 1024
_LINE_BYTES_MAX = 64 * 1024
_RECORD_BYTES_MAX = 64 * 1024 * 1024

Advance = Callable[[int, int], None]
"""Hears how far it is: done, and in all."""


@dataclass(slots=True)
class TransferCounts:
    """What was written, and what was left where it is."""

    topics: int = 0
    messages: int = 0
    expected: int = 0
    """How many there are to write."""
    left_out: dict[str, int] = field(default_factory=dict)


class ExportSection(NamedTuple):
    """A topic in the file."""

    broker: str
    topic: Topic


class _Out:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._checksum = 0

    def put(self, data: bytes) -> None:
        self._checksum = crc32(data, self._checksum)
        self._stream.write(data)

    def line(self, values: dict[str, Any]) -> None:
        self.put(json.dumps(values).encode() + b"\n")

    def begin(self, section: ExportSection) -> None:
        topic = section.topic
        self.line(
            {
                "broker": section.broker, "topic": topic.name, "read_queues": topic.read_queues,
                "write_queues": topic.write_queues, "perm": topic.perm, "is_ordered": topic.is_ordered,
            }
        )  # fmt: skip

    def end(self, messages: int) -> None:
        self.line({"messages": messages, "crc32": self._checksum})


def export(database: Database, stream: BinaryIO, *, only: frozenset[str], advance: Advance) -> TransferCounts:
    """Write topics of a store that is whole. RecordDamaged names the first message that is not."""
    queues = Queues(database.writing)
    log = Log(database.reading, queues)
    brokers = sorted({queue.broker for queue in queues.all()} | _brokers(database))
    topics = {
        (broker, name): topic
        for broker in brokers
        for name, topic in sorted(load_topics(database.writing, broker).items())
    }
    _check_known(only, {name for _, name in topics})
    chosen = {key: topic for key, topic in topics.items() if _is_chosen(key[1], only)}
    counts = TransferCounts()
    for queue in queues.all():
        count = queue.end - queue.low
        if (queue.broker, queue.topic) in chosen:
            counts.expected += count
        elif queue.topic in NOT_SENDABLE and count:
            counts.left_out[queue.topic] = counts.left_out.get(queue.topic, 0) + count
    out = _Out(stream)
    out.line({"format": FORMAT, "version": VERSION})
    for (broker, name), topic in chosen.items():
        out.begin(ExportSection(broker, topic))
        counts.topics += 1
        for queue in queues.of_topic(broker, name):
            at = queue.low
            while at < queue.end:
                part = log.read(queue, at, count_max=_READ_COUNT, bytes_max=_READ_BYTES)
                for record in part.records:
                    out.put(record)
                counts.messages += len(part.records)
                at = part.next_offset
                advance(counts.messages, counts.expected)
        out.put(_END)
    out.end(counts.messages)
    return counts


def _is_chosen(topic: str, only: frozenset[str]) -> bool:
    return bool(topic) and topic not in NOT_SENDABLE and (not only or topic in only)


def _check_known(only: frozenset[str], names: set[str]) -> None:
    if missing := sorted(only - names):
        raise UsageWrong(f"--topic {shorten(missing[0])}: there is no such topic in this store")


def _brokers(database: Database) -> set[str]:
    return {str(row[0]) for row in database.writing.execute("SELECT DISTINCT broker FROM topics").fetchall()}


class Incoming(NamedTuple):
    """A message to be stored, with what it is found by."""

    broker: str
    topic: str
    number: int
    data: bytes
    tag: int
    key_hashes: list[int]


class _In:
    """The file as it is read, with the checksum of what has been."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self.name = name
        self.checksum = 0

    def take(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) != size:
            raise ExportWrong(f"{self.name}: ends in the middle of a message; export it again")
        self.checksum = crc32(data, self.checksum)
        return data

    def line(self) -> dict[str, Any]:
        text = self._stream.readline(_LINE_BYTES_MAX)
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            raise ExportWrong(f"{self.name}: no export of a broker, or damaged: {shorten(text)}")
        if "crc32" not in values:  # the last line is not part of what it sums up
            self.checksum = crc32(text, self.checksum)
        return values

    def record(self, number: int) -> tuple[bytes, Record] | None:
        """The next message of a topic, or None at its end."""
        length = self.take(4)
        size = int.from_bytes(length, "big")
        if size == 0:
            return None
        if not 4 < size <= _RECORD_BYTES_MAX:
            raise ExportWrong(f"{self.name}: message {number}: {size} bytes; the file is damaged")
        data = length + self.take(size - 4)
        try:
            (record,) = decode_records(data)
        except RecordDamaged as error:
            raise ExportWrong(f"{self.name}: message {number}: {error.reason}") from error
        return data, record


def read(stream: BinaryIO, name: str) -> Iterator[ExportSection | Incoming]:
    """The topics and messages of a file. ConfigurationError for one that is damaged, cut short or no export."""
    source = _In(stream, name)
    head = source.line()
    if head.get("format") != FORMAT or head.get("version") != VERSION:
        raise ExportWrong(f"{name}: {shorten(head)}: this version reads {FORMAT!r}, version {VERSION}")
    count = 0
    while "crc32" not in (values := source.line()):
        section = _section(values, name)
        yield section
        while (found := source.record(count + 1)) is not None:
            data, record = found
            count += 1
            tag = tag_hash(record.properties.get(TAGS))
            yield Incoming(section.broker, section.topic.name, record.queue_id, data, tag, key_hashes(record))
    if (values.get("messages"), values["crc32"]) != (count, source.checksum):
        raise ExportWrong(f"{name}: damaged: not what its checksum says; export it again")


def _section(values: dict[str, Any], name: str) -> ExportSection:
    try:
        return ExportSection(
            str(values["broker"]),
            Topic(
                name=str(values["topic"]), read_queues=int(values["read_queues"]),
                write_queues=int(values["write_queues"]), perm=int(values["perm"]),
                is_ordered=bool(values["is_ordered"]),
            ),
        )  # fmt: skip
    except (KeyError, ValueError, TypeError) as error:
        raise ExportWrong(f"{name}: {shorten(values)}: no topic's line; the file is damaged") from error


def check(path: Path) -> int:
    """Read the file once, for its mistakes; how many messages it holds. So nothing is imported of half a file."""
    try:
        with path.open("rb") as stream:
            return sum(isinstance(each, Incoming) for each in read(stream, str(path)))
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error
