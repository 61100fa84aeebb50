"""Options of `format("rocketmq")`: names, meanings and checks. It makes no requests.

Spark passes option names in lower case, so names are compared in lower case and shown as documented. An unknown one is
refused with the nearest right name: a mistyped limit that is silently ignored is found in production.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from framework.errors import nearest, shorten
from framework.model.durations import to_ms
from framework.model.reserved import GROUP_LENGTH_MAX, check_name, check_topic
from framework.reading import Filter, ReaderSettings, TlsOptions
from framework_spark.conditions import Where, parts_of
from framework_spark.mistakes import SparkMisused
from framework_spark.offsets import (
    EARLIEST,
    LATEST,
    Assigned,
    Offsets,
    assigned_of,
    instant_of,
    instants_of,
    offsets_of,
)

CONNECTION = ("nameServers", "credentials", "tls", "tlsCaFile", "tlsCertFile", "tlsKeyFile", "group", "requestTimeout")
PATIENT = (*CONNECTION, "brokerWait")
"""Of what waits for a broker that is away."""
SOURCE = (
    *PATIENT, "topic", "topicPattern", "assign", "startingOffsets", "startingTimestamp",
    "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "failOnDataLoss", "minPartitions",
    "maxRecordsPerPartition", "tags", "sql", "includeBody", "where", "properties", "propertyColumns", "pushdown",
    "fetchRetries", "damaged",
)  # fmt: skip
BATCH = (*SOURCE, "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
STREAM = (*SOURCE, "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
OF_LOTS = ("recordTopic", "unconfirmedWait", "txnAppId", "txnVersion")
"""What means something for a transactional sink alone."""
SINK = (*PATIENT, "topic", "batchSize", "emptyBody", "transactional", *OF_LOTS)
_EVERYWHERE = frozenset({*BATCH, *STREAM, *SINK})
CHECKPOINT = "checkpointlocation"
_SPARKS_OWN = frozenset({CHECKPOINT, "queryname"})  # of writeStream; Spark hands them on

_WHERE_HELP = (
    "it obeys topic, broker, queueId and tag, and in a batch read offset and storeTime, compared with literals (times "
    "with their zone) and joined by AND; leave the rest to the frame's where(), as framework_spark.read does"
)
NO_PUSHDOWN = (
    "Spark 4.3 gives wrong rows where two queries share one load() (SPARK-58551); use framework_spark.read(where=...), "
    "which needs none"
)

# What people who come from Spark's Kafka source write first.
_KAFKAS = {
    "subscribe": "write topic",
    "subscribePattern": "write topicPattern",
    "groupIdPrefix": "leave it out: reading joins no group; group names the one that gets a copy of the offsets",
    "includeHeaders": "leave it out: the column properties has what headers are there",
    "kafkaConsumer.pollTimeoutMs": "write requestTimeout, for one request, and brokerWait, for all of them",
    "fetchOffset.numRetries": "write fetchRetries, and brokerWait for how long a broker may be away",
    "fetchOffset.retryIntervalMs": "write brokerWait",
    "kafka.bootstrap.servers": "write nameServers, with the addresses of RocketMQ's name servers",
    "kafka.group.id": "write group",
    "kafka.auto.offset.reset": "write startingOffsets",
}
_KAFKAS_BY_LOWER = {name.lower(): (name, instead) for name, instead in _KAFKAS.items()}
_KAFKAS_KINDS = (
    ("kafka.sasl.", "write credentials"),
    ("kafka.ssl.", "write tls, tlsCaFile, tlsCertFile, tlsKeyFile"),
    ("kafka.security.", "write tls"),
    ("kafka.", "leave it out: there is no client of Kafka's that it could be for"),
)

FAIL, SKIP, COLUMN = "fail", "skip", "column"
_DAMAGED = (FAIL, SKIP, COLUMN)

MAX_TRIGGER_DELAY_MS = 15 * 60_000  # as the Kafka source
UNCONFIRMED_MS = 5_000  # a broker of RocketMQ's drops an end that has waited for 3 s
BROKER_WAIT_MS = 2 * 60_000  # for a broker of RocketMQ's with a large log to restart


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a reading begins or ends: at an offset (or EARLIEST, LATEST) a queue, or at an instant."""

    everywhere: int = LATEST
    queues: Offsets = field(default_factory=dict)
    timestamp_ms: int | None = None
    instants: Offsets = field(default_factory=dict)
    """Of single queues, in place of offsets."""
    must_match: bool = False
    """Whether a queue without a message from its instant on is an error; else it begins at its end."""

    @property
    def is_earliest(self) -> bool:
        """Whether it is the beginning of every queue."""
        return self == Bound(EARLIEST)


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """Which columns a source has beside those that it always has."""

    has_properties: bool = True
    single: tuple[str, ...] = ()
    """Properties with a column of their own."""
    damaged: str = ""
    """What becomes of damaged messages: one of `_DAMAGED`; empty: what `failOnDataLoss` says."""


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
    where: Where
    columns: ColumnOptions
    broker_wait_ms: int


@dataclass(frozen=True, slots=True)
class LotOptions:
    """How rows become visible together: `framework.Lots`."""

    record_topic: str
    """Empty: one of the query's own."""
    unconfirmed_ms: int
    patience_ms: int
    name: str = ""
    """Of a batch write, which has no query's id and no batch's number."""
    lot: int = 0


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a sink was told. Picklable, without secrets."""

    settings: ReaderSettings
    group: str
    topic: str
    batch_size: int
    broker_wait_ms: int
    skips_empty: bool = False
    """Whether a row without a body is left out; else it is an error."""
    lots: LotOptions | None = None
    """Of a transactional one."""


def source_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """The options of a source, or ConfigurationError naming the first that cannot work."""
    options = _Given(given, STREAM if streaming else BATCH, "a stream" if streaming else "a batch read")
    topics = tuple(part.strip() for part in options.text("topic").split(",") if part.strip())
    pattern, assigned = options.text("topicPattern"), _assigned(options)
    if [bool(topics), bool(pattern), bool(assigned)].count(True) != 1:
        raise SparkMisused('format("rocketmq"): give either topic or topicPattern or assign')
    topics = topics or tuple(sorted({topic for topic, _, _ in assigned}))
    for topic in topics:
        check_topic(topic)
    if pattern:
        options.read("topicPattern", re.compile, "a regular expression", errors=re.error)
    low, high = options.count("minOffsetsPerTrigger"), options.count("maxOffsetsPerTrigger")
    if low is not None and high is not None and low > high:
        raise SparkMisused(f"option minOffsetsPerTrigger {low} is above maxOffsetsPerTrigger {high}")
    if options.flag("pushdown", default=False):
        raise SparkMisused(f"option pushdown=true: {NO_PUSHDOWN}")
    where = replace(_where(options, streaming=streaming), assigned=assigned)
    delay = options.read("maxTriggerDelay", to_ms, "a duration such as 15m")
    retries = options.read("fetchRetries", _natural, "a whole number from 0 on")
    settings = _settings(options, "framework_spark")
    return SourceOptions(
        settings=settings if retries is None else replace(settings, retries=retries),
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
        wanted=Filter(
            tags=" || ".join(sorted(where.tags or ())) or options.text("tags") or "*", sql=options.text("sql")
        ),
        include_body=options.flag("includeBody", default=True),
        where=where,
        columns=_columns(options),
        broker_wait_ms=_broker_wait_ms(options),
    )


def sink_options(given: Mapping[str, str], *, streaming: bool = True) -> SinkOptions:
    """The options of a sink, or ConfigurationError naming the first that cannot work."""
    options = _Given(given, SINK, "a sink")
    topic = options.text("topic")
    if topic:
        check_topic(topic)
    lots = None
    if options.flag("transactional", default=False):
        if streaming and not any(name.lower() == CHECKPOINT for name in given):
            raise SparkMisused(
                "option transactional=true: give option checkpointLocation as well; with a temporary one a query that "
                "is started again has another id, and would not know what it has sent"
            )
        lots = _lots(options, streaming=streaming)
    elif useless := [name for name in OF_LOTS if options.text(name)]:
        raise SparkMisused(f"option {useless[0]}: it means nothing without transactional=true; leave it out")
    empty = options.text("emptyBody").lower()
    if empty not in {"", FAIL, SKIP}:
        raise SparkMisused(f"option emptyBody={shorten(options.text('emptyBody'))}: write {FAIL} or {SKIP}")
    settings = _settings(options, "framework_spark_sink" if lots is None else "framework_spark_transactions")
    batch_size, wait_ms = options.count("batchSize") or 256, _broker_wait_ms(options)
    return SinkOptions(settings, settings.group, topic, batch_size, wait_ms, empty == SKIP, lots)


def _broker_wait_ms(options: _Given) -> int:
    found: int | None = options.read("brokerWait", to_ms, "a duration such as 2m, or 0s")
    return BROKER_WAIT_MS if found is None else found


def _lots(options: _Given, *, streaming: bool) -> LotOptions:
    if options.text("batchSize"):
        raise SparkMisused("option batchSize: half messages leave one by one; leave it out with transactional=true")
    records, name = options.text("recordTopic"), options.text("txnAppId")
    if records:
        check_topic(records)
        if records == options.text("topic"):
            raise SparkMisused(f"option recordTopic={shorten(records)}: rows go to this topic; give one of its own")
    lot = options.read("txnVersion", _natural, "a whole number from 0 on, which grows from write to write")
    if streaming and (name or lot is not None):
        raise SparkMisused(
            "option txnAppId: a stream has an id and numbers its batches; leave out txnAppId, txnVersion"
        )
    if not streaming and (not name or lot is None or not records):
        raise SparkMisused(
            "option transactional=true: a batch write needs options txnAppId and txnVersion, as Delta's does, by which "
            "a second attempt is known, and recordTopic, a topic on one broker"
        )
    unconfirmed = options.read("unconfirmedWait", to_ms, "a duration such as 5s")
    return LotOptions(
        records, UNCONFIRMED_MS if unconfirmed is None else unconfirmed, _broker_wait_ms(options), name, lot or 0
    )


def _some_ms(text: str) -> int:
    if not (found := to_ms(text)):
        raise ValueError("no time at all")
    return found


def _natural(text: str) -> int:
    if (number := int(text)) < 0:
        raise ValueError("below 0")
    return number


def mirror_options(given: Mapping[str, str]) -> ReaderSettings:
    """How a group's offsets are told to its brokers, or ConfigurationError naming the first that cannot work."""
    options = _Given(given, CONNECTION, "a mirror of offsets")
    if not options.text("group"):
        raise SparkMisused("OffsetMirror: option group is missing; it says whose offsets are told")
    return _settings(options, "")


def _settings(options: _Given, group: str) -> ReaderSettings:
    servers = tuple(part.strip() for part in re.split("[,;]", options.text("nameServers")) if part.strip())
    if not servers:
        raise SparkMisused('format("rocketmq"): option nameServers is missing; write host:port,host:port')
    tls = None
    if options.flag("tls", default=False):
        tls = TlsOptions(
            ca_file=options.text("tlsCaFile"),
            cert_file=options.text("tlsCertFile"),
            key_file=options.text("tlsKeyFile"),
        )
    elif useless := [name for name in ("tlsCaFile", "tlsCertFile", "tlsKeyFile") if options.text(name)]:
        raise SparkMisused(f"option {useless[0]}: it means nothing without tls=true; nothing would be encrypted")
    timeout = options.read("requestTimeout", _some_ms, "a duration such as 10s")
    timeout = ReaderSettings(servers).request_timeout_ms if timeout is None else timeout
    return ReaderSettings(
        servers,
        request_timeout_ms=timeout,
        group=check_name("group", options.text("group") or group, GROUP_LENGTH_MAX),
        credentials=options.text("credentials"),
        tls=tls,
    )


def _where(options: _Given, *, streaming: bool) -> Where:
    """Of a text that is obeyed as a whole: nobody else would filter."""
    text = options.text("where")
    parts = parts_of(text, streaming=streaming)
    if parts.rest:
        raise SparkMisused(f"option where: the source cannot obey {shorten(parts.rest[0])}; {_WHERE_HELP}")
    if parts.where.tags is not None and (options.text("tags") or options.text("sql")):
        raise SparkMisused("option where: it names tags, and so does tags or sql; say it in one of them")
    return parts.where


def column_options(given: Mapping[str, str]) -> ColumnOptions:
    """Which columns there are, before it is known what the source is for."""
    return _columns(_Given(given, tuple(_EVERYWHERE), "a source"))


def _columns(options: _Given) -> ColumnOptions:
    names = tuple(part.strip() for part in options.text("propertyColumns").split(",") if part.strip())
    if len({name.lower() for name in names}) < len(names):
        raise SparkMisused(f"option propertyColumns={','.join(names)}: a name is there twice")
    damaged = options.text("damaged").lower()
    if damaged and damaged not in _DAMAGED:
        raise SparkMisused(
            f"option damaged={shorten(options.text('damaged'))}: write {', '.join(_DAMAGED[:2])} or column"
        )
    return ColumnOptions(options.flag("properties", default=True), names, damaged)


def _assigned(options: _Given) -> Assigned:
    shape = '{"topic": {"broker": [0, 1]}}, or {"topic": [0, 1]} for these queues of all brokers'
    return options.read("assign", assigned_of, shape) or frozenset()


def _bound(options: _Given, kind: str, default: int) -> Bound:
    offsets, timestamp, timestamps = f"{kind}Offsets", f"{kind}Timestamp", f"{kind}OffsetsByTimestamp"
    given = [name for name in (timestamp, timestamps, offsets) if options.text(name)]
    if len(given) > 1:
        raise SparkMisused(f"give either {given[1]} or {given[0]}, not both")
    must_match = kind == "starting" and _must_match(options, is_timed=given[:1] in ([timestamp], [timestamps]))
    # What is not named is read whole: from its beginning, up to its end.
    everywhere = EARLIEST if kind == "starting" else LATEST
    when = options.read(timestamp, instant_of, "milliseconds since 1970, or a time with its zone: 2026-01-31T12:00:00Z")
    if when is not None:
        return Bound(timestamp_ms=when, must_match=must_match)
    shape = '{"topic": {"broker": {"0": 1700000000000, "1": "2026-01-31T12:00:00Z"}}}'
    instants = options.read(timestamps, instants_of, shape)
    if instants is not None:
        return Bound(everywhere, instants=instants, must_match=must_match)
    text = options.text(offsets)
    words = {"": default, "earliest": EARLIEST, "latest": LATEST}
    if text.lower() in words:
        return Bound(words[text.lower()])
    queues = options.read(
        offsets, offsets_of, 'earliest, latest, or {"topic": {"broker": {"0": 5, "1": -2}}} (-2 earliest, -1 latest)'
    )
    return Bound(everywhere, queues or {})


def _must_match(options: _Given, *, is_timed: bool) -> bool:
    name = "startingOffsetsByTimestampStrategy"
    text = options.text(name).lower()
    if text not in {"", "error", "latest"}:
        raise SparkMisused(f"option {name}={shorten(options.text(name))}: write error or latest")
    if text and not is_timed:
        raise SparkMisused(f"option {name}: it says what becomes of startingTimestamp; there is none")
    return text == "error"


class _Given:
    """What a user wrote, by the names that this use of the format has."""

    def __init__(self, given: Mapping[str, str], names: tuple[str, ...], use: str) -> None:
        known = {name.lower(): name for name in names}
        self._values: dict[str, str] = {}
        for name, value in given.items():
            if name.lower() in known:
                self._values[known[name.lower()]] = value.strip()
            elif name.lower() not in _SPARKS_OWN:
                raise SparkMisused(_unknown(name, known, use))

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
            raise SparkMisused(f"option {name}={shorten(text)}: write {shape}") from error

    def count(self, name: str) -> int | None:
        value: int | None = self.read(name, int, "a whole number above 0")
        if value is not None and value < 1:
            raise SparkMisused(f"option {name}={value}: write a whole number above 0")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        text = self.text(name)
        if text.lower() not in {"", "true", "false"}:
            raise SparkMisused(f"option {name}={shorten(text)}: write true or false")
        return default if not text else text.lower() == "true"


def _unknown(name: str, known: Mapping[str, str], use: str) -> str:
    elsewhere = next((other for other in _EVERYWHERE if other.lower() == name.lower()), None)
    if elsewhere is not None:
        return f'format("rocketmq"): option {elsewhere} means nothing for {use}; leave it out'
    if (kafkas := instead_of(name)) is not None:
        return f'format("rocketmq"): option {kafkas[0]} is Kafka\'s; {kafkas[1]}'
    hint = nearest(name.lower(), known)
    for lower, right in known.items():
        hint = hint.replace(f"'{lower}'", f"'{right}'")
    return f'format("rocketmq"): unknown option {shorten(name)}{hint}'


def instead_of(name: str) -> tuple[str, str] | None:
    """Kafka's name as it is documented, and what to do here; None for what is not Kafka's."""
    lower = name.lower()
    if lower in _KAFKAS_BY_LOWER:
        return _KAFKAS_BY_LOWER[lower]
    return next(((name, instead) for prefix, instead in _KAFKAS_KINDS if lower.startswith(prefix)), None)
