"""Options of `format("rocketmq")`: names, meanings and checks. It makes no requests.

Spark passes option names in lower case, so names are compared in lower case and shown as documented. An unknown one is
refused with the nearest right name: a mistyped limit that is silently ignored is found in production.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from framework.errors import ConfigurationError, nearest, shorten
from framework.model.durations import to_ms
from framework.model.reserved import GROUP_LENGTH_MAX, check_name, check_topic
from framework.reading import Filter, ReaderSettings, TlsOptions

EARLIEST, LATEST = -2, -1
Offsets: TypeAlias = dict[str, dict[str, dict[str, int]]]
"""Topic -> broker -> queue number as a text -> offset: what a checkpoint holds, and what startingOffsets may be."""

CONNECTION = ("nameServers", "credentials", "tls", "tlsCaFile", "tlsCertFile", "tlsKeyFile", "group")
SOURCE = (
    *CONNECTION, "topic", "topicPattern", "startingOffsets", "startingTimestamp", "failOnDataLoss", "minPartitions",
    "maxRecordsPerPartition", "tags", "sql", "includeBody",
)  # fmt: skip
BATCH = (*SOURCE, "endingOffsets", "endingTimestamp")
STREAM = (*SOURCE, "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
SINK = (*CONNECTION, "topic", "batchSize")
_EVERYWHERE = frozenset({*BATCH, *STREAM, *SINK})
_SPARKS_OWN = frozenset({"checkpointlocation", "queryname"})  # of writeStream; Spark hands them on

MAX_TRIGGER_DELAY_MS = 15 * 60_000  # as the Kafka source


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a reading begins or ends: at an offset (or EARLIEST, LATEST) a queue, or at an instant."""

    everywhere: int = LATEST
    queues: Offsets = field(default_factory=dict)
    timestamp_ms: int | None = None

    @property
    def is_earliest(self) -> bool:
        """Whether it is the beginning of every queue."""
        return self == Bound(EARLIEST)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a source was told. Picklable, without secrets."""

    settings: ReaderSettings
    topics: tuple[str, ...]
    topic_pattern: str
    group: str
    starting: Bound
    ending: Bound
    fail_on_data_loss: bool
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    wanted: Filter
    include_body: bool


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a sink was told. Picklable, without secrets."""

    settings: ReaderSettings
    group: str
    topic: str
    batch_size: int


def source_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """The options of a source, or ConfigurationError naming the first that cannot work."""
    options = _Given(given, STREAM if streaming else BATCH, "a stream" if streaming else "a batch read")
    topics = tuple(part.strip() for part in options.text("topic").split(",") if part.strip())
    pattern = options.text("topicPattern")
    if bool(topics) == bool(pattern):
        raise ConfigurationError('format("rocketmq"): give either topic or topicPattern')
    for topic in topics:
        check_topic(topic)
    if pattern:
        options.read("topicPattern", re.compile, "a regular expression", errors=re.error)
    low, high = options.count("minOffsetsPerTrigger"), options.count("maxOffsetsPerTrigger")
    if low is not None and high is not None and low > high:
        raise ConfigurationError(f"option minOffsetsPerTrigger {low} is above maxOffsetsPerTrigger {high}")
    delay = options.read("maxTriggerDelay", to_ms, "a duration such as 15m")
    return SourceOptions(
        settings=_settings(options, "framework_spark"),
        topics=topics,
        topic_pattern=pattern,
        group=options.text("group"),
        starting=_bound(options, "starting", LATEST if streaming else EARLIEST),
        ending=_bound(options, "ending", LATEST),
        fail_on_data_loss=options.flag("failOnDataLoss", default=True),
        max_offsets_per_trigger=high,
        min_offsets_per_trigger=low,
        max_trigger_delay_ms=MAX_TRIGGER_DELAY_MS if delay is None else delay,
        min_partitions=options.count("minPartitions"),
        max_records_per_partition=options.count("maxRecordsPerPartition"),
        wanted=Filter(tags=options.text("tags") or "*", sql=options.text("sql")),
        include_body=options.flag("includeBody", default=True),
    )


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """The options of a sink, or ConfigurationError naming the first that cannot work."""
    options = _Given(given, SINK, "a sink")
    topic = options.text("topic")
    if topic:
        check_topic(topic)
    settings = _settings(options, "framework_spark_sink")
    return SinkOptions(settings, settings.group, topic, options.count("batchSize") or 256)


def mirror_options(given: Mapping[str, str]) -> ReaderSettings:
    """How a group's offsets are told to its brokers, or ConfigurationError naming the first that cannot work."""
    options = _Given(given, CONNECTION, "a mirror of offsets")
    if not options.text("group"):
        raise ConfigurationError("OffsetMirror: option group is missing; it says whose offsets are told")
    return _settings(options, "")


def _settings(options: _Given, group: str) -> ReaderSettings:
    servers = tuple(part.strip() for part in re.split("[,;]", options.text("nameServers")) if part.strip())
    if not servers:
        raise ConfigurationError('format("rocketmq"): option nameServers is missing; write host:port,host:port')
    tls = None
    if options.flag("tls", default=False):
        tls = TlsOptions(
            ca_file=options.text("tlsCaFile"),
            cert_file=options.text("tlsCertFile"),
            key_file=options.text("tlsKeyFile"),
        )
    return ReaderSettings(
        servers,
        group=check_name("group", options.text("group") or group, GROUP_LENGTH_MAX),
        credentials=options.text("credentials"),
        tls=tls,
    )


def _bound(options: _Given, kind: str, default: int) -> Bound:
    offsets, timestamp = f"{kind}Offsets", f"{kind}Timestamp"
    if options.text(offsets) and options.text(timestamp):
        raise ConfigurationError(f"give either {offsets} or {timestamp}, not both")
    when = options.read(timestamp, _instant, "milliseconds since 1970, or a time with its zone: 2026-01-31T12:00:00Z")
    if when is not None:
        return Bound(timestamp_ms=when)
    text = options.text(offsets)
    words = {"": default, "earliest": EARLIEST, "latest": LATEST}
    if text.lower() in words:
        return Bound(words[text.lower()])
    queues = options.read(
        offsets, _queues, 'earliest, latest, or {"topic": {"broker": {"0": 5, "1": -2}}} (-2 earliest, -1 latest)'
    )
    # What is not named is read whole: from its beginning, up to its end.
    return Bound(EARLIEST if kind == "starting" else LATEST, queues or {})


def _instant(text: str) -> int:
    if text.isdecimal():
        return int(text)
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ValueError("without a time zone")
    return int(when.timestamp() * 1000)


def _queues(text: str) -> Offsets:
    given = json.loads(text)
    found: Offsets = {}
    for topic, brokers in _pairs(given):
        for broker, queues in _pairs(brokers):
            for number, offset in _pairs(queues):
                if (
                    not number.isdecimal()
                    or not isinstance(offset, int)
                    or isinstance(offset, bool)
                    or offset < EARLIEST
                ):
                    raise ValueError(f"queue {number}: {offset}")
                found.setdefault(topic, {}).setdefault(broker, {})[number] = offset
    return found


def _pairs(value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004  # of the text's shape, not of a caller's argument
    return list(value.items())


class _Given:
    """What a user wrote, by the names that this use of the format has."""

    def __init__(self, given: Mapping[str, str], names: tuple[str, ...], use: str) -> None:
        known = {name.lower(): name for name in names}
        self._values: dict[str, str] = {}
        for name, value in given.items():
            if name.lower() in known:
                self._values[known[name.lower()]] = value.strip()
            elif name.lower() not in _SPARKS_OWN:
                raise ConfigurationError(_unknown(name, known, use))

    def text(self, name: str) -> str:
        return self._values.get(name, "")

    def read(self, name: str, read: Callable[[str], Any], shape: str, *, errors: type[Exception] = ValueError) -> Any:
        """The value as `read` understands it; None where it is not given."""
        text = self.text(name)
        if not text:
            return None
        try:
            return read(text)
        except errors as error:
            raise ConfigurationError(f"option {name}={shorten(text)}: write {shape}") from error

    def count(self, name: str) -> int | None:
        value: int | None = self.read(name, int, "a whole number above 0")
        if value is not None and value < 1:
            raise ConfigurationError(f"option {name}={value}: write a whole number above 0")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        text = self.text(name).lower()
        if text not in {"", "true", "false"}:
            raise ConfigurationError(f"option {name}={shorten(text)}: write true or false")
        return default if not text else text == "true"


def _unknown(name: str, known: Mapping[str, str], use: str) -> str:
    elsewhere = next((other for other in _EVERYWHERE if other.lower() == name.lower()), None)
    if elsewhere is not None:
        return f'format("rocketmq"): option {elsewhere} means nothing for {use}; leave it out'
    hint = nearest(name.lower(), known)
    for lower, right in known.items():
        hint = hint.replace(f"'{lower}'", f"'{right}'")
    return f'format("rocketmq"): unknown option {shorten(name)}{hint}'
