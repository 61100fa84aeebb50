"""Options: each one's meaning, and what is said about those that cannot work."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from framework_spark.causes import cause_of
from framework_spark.offsets import EARLIEST, LATEST
from framework_spark.options import BATCH, SINK, STREAM, Bound, instead_of, sink_options, source_options

from framework.errors import ConfigurationError, Sql92Error
from framework.reading import Filter

NEEDED = {"nameServers": "a:1", "topic": "orders"}


def test_what_is_not_said_has_kafka_s_defaults() -> None:
    batch, stream = source_options(NEEDED, streaming=False), source_options(NEEDED, streaming=True)

    assert (Bound(EARLIEST), Bound(LATEST)) == (batch.starting, batch.ending)
    assert Bound(LATEST) == stream.starting
    assert stream.fail_on_data_loss
    assert stream.include_body
    assert 15 * 60_000 == stream.max_trigger_delay_ms
    assert Filter() == stream.wanted
    assert "" == stream.group
    assert None is stream.max_offsets_per_trigger is stream.min_offsets_per_trigger is stream.min_partitions


def test_every_option_is_understood_in_any_case() -> None:
    given = {
        "NAMESERVERS": "a:1; b:2,[::1]:3", "topicpattern": "ord.*", "group": "revenue", "startingoffsets": "earliest",
        "failondataloss": "FALSE", "maxoffsetspertrigger": "100", "minoffsetspertrigger": "10",
        "maxtriggerdelay": "30s", "minpartitions": "4", "maxrecordsperpartition": "50", "tags": "a || b",
        "includebody": "false", "credentials": "env:SHOP", "tls": "true", "tlscafile": "ca.pem",
    }  # fmt: skip

    options = source_options(given, streaming=True)

    assert ("a:1", "b:2", "[::1]:3") == options.settings.name_servers
    assert ("ord.*", (), "revenue", "revenue") == (
        options.topic_pattern, options.topics, options.group, options.settings.group
    )  # fmt: skip
    assert Bound(EARLIEST) == options.starting
    assert not options.fail_on_data_loss
    assert (100, 10, 30_000) == (
        options.max_offsets_per_trigger, options.min_offsets_per_trigger, options.max_trigger_delay_ms
    )  # fmt: skip
    assert (4, 50) == (options.min_partitions, options.max_records_per_partition)
    assert Filter(tags="a || b") == options.wanted
    assert not options.include_body
    assert "env:SHOP" == options.settings.credentials
    assert options.settings.tls is not None
    assert "ca.pem" == options.settings.tls.ca_file
    assert options == pickle.loads(pickle.dumps(options))


def test_bounds_are_words_offsets_or_instants() -> None:
    offsets = '{"orders": {"broker-a": {"0": 5, "1": -2, "2": -1}}}'
    batch = source_options({**NEEDED, "startingOffsets": offsets, "endingTimestamp": "1700000000123"}, streaming=False)

    assert Bound(EARLIEST, {"orders": {"broker-a": {"0": 5, "1": EARLIEST, "2": LATEST}}}) == batch.starting
    assert Bound(timestamp_ms=1_700_000_000_123) == batch.ending
    when = source_options({**NEEDED, "startingTimestamp": "2026-01-31T12:00:00+01:00"}, streaming=True).starting
    assert 1_769_857_200_000 == when.timestamp_ms
    ending = source_options({**NEEDED, "endingOffsets": offsets}, streaming=False).ending
    assert LATEST == ending.everywhere


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"topc": "x"}, "unknown option 'topc'; did you mean 'topic'?"),
        ({"maxoffsetpertrigger": "5"}, "unknown option 'maxoffsetpertrigger'; did you mean 'maxOffsetsPerTrigger'?"),
        ({"endingOffsets": "latest"}, "option endingOffsets means nothing for a stream"),
        ({"batchSize": "5"}, "option batchSize means nothing for a stream"),
        ({"topic": ""}, "give either topic or topicPattern"),
        ({"topicPattern": "x"}, "give either topic or topicPattern"),
        ({"topic": "a b"}, "topic 'a b'"),
        ({"topic": "", "topicPattern": "("}, r"option topicPattern='\(': write a regular expression"),
        ({"nameServers": ""}, "option nameServers is missing"),
        ({"nameServers": "nowhere"}, "name server 'nowhere': write host:port"),
        ({"group": "a b"}, "group 'a b'"),
        ({"startingOffsets": "first"}, "option startingOffsets='first': write earliest, latest"),
        ({"startingOffsets": '{"orders": {"0": 5}}'}, "option startingOffsets="),
        ({"startingOffsets": '{"orders": {"a": {"0": -3}}}'}, "option startingOffsets="),
        ({"startingOffsets": '{"orders": {"a": {"x": 3}}}'}, "option startingOffsets="),
        ({"startingOffsets": "latest", "startingTimestamp": "5"}, "not both"),
        ({"startingTimestamp": "yesterday"}, "milliseconds since 1970"),
        ({"startingTimestamp": "2026-01-31T12:00:00"}, "a time with its zone"),
        ({"failOnDataLoss": "no"}, "option failOnDataLoss='no': write true or false"),
        ({"maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger=0: write a whole number above 0"),
        ({"minPartitions": "many"}, "option minPartitions='many': write a whole number"),
        ({"maxTriggerDelay": "soon"}, "option maxTriggerDelay='soon': write a duration"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "minOffsetsPerTrigger 9 is above"),
        ({"damaged": "null"}, "option damaged='null': write fail, skip or column"),
        ({"tags": "a", "sql": "b = 1"}, "either tags or sql"),
        ({"credentials": "hunter2"}, "write a reference, file:PATH or env:PREFIX"),
    ],
)
def test_what_cannot_work_is_one_error_that_names_it(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        source_options({**NEEDED, **options}, streaming=True)


def test_a_filter_s_mistake_is_shown_before_a_broker_is_asked() -> None:
    with pytest.raises(Sql92Error, match="character"):
        source_options({**NEEDED, "sql": "price >"}, streaming=False)


def test_a_limit_of_triggers_means_nothing_for_a_batch() -> None:
    with pytest.raises(ConfigurationError, match="option maxOffsetsPerTrigger means nothing for a batch read"):
        source_options({**NEEDED, "maxOffsetsPerTrigger": "5"}, streaming=False)


def test_a_sink_has_options_of_its_own() -> None:
    options = sink_options({"nameServers": "a:1", "topic": "out", "batchSize": "7", "checkpointLocation": "/x"})

    assert ("out", 7, "framework_spark_sink") == (options.topic, options.batch_size, options.group)
    assert 256 == sink_options({"nameServers": "a:1"}).batch_size
    with pytest.raises(ConfigurationError, match="option tags means nothing for a sink"):
        sink_options({"nameServers": "a:1", "tags": "x"})


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("subscribe", "option subscribe is Kafka's; write topic"),
        ("subscribepattern", "option subscribePattern is Kafka's; write topicPattern"),
        ("kafka.bootstrap.servers", "option kafka.bootstrap.servers is Kafka's; write nameServers"),
        ("kafka.group.id", "option kafka.group.id is Kafka's; write group"),
        ("kafka.auto.offset.reset", "option kafka.auto.offset.reset is Kafka's; write startingOffsets"),
        ("groupidprefix", "option groupIdPrefix is Kafka's; leave it out: reading joins no group"),
        ("includeheaders", "option includeHeaders is Kafka's; leave it out: the column properties"),
        ("kafkaconsumer.polltimeoutms", "option kafkaConsumer.pollTimeoutMs is Kafka's; write requestTimeout"),
        ("kafka.sasl.jaas.config", "option kafka.sasl.jaas.config is Kafka's; write credentials"),
        ("kafka.ssl.truststore.location", "is Kafka's; write tls, tlsCaFile"),
        ("kafka.max.poll.records", "is Kafka's; leave it out: there is no client"),
    ],
)
def test_an_option_of_kafka_s_says_what_to_write_instead(name: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(complaint)):
        source_options({**NEEDED, name: "x"}, streaming=True)
    with pytest.raises(ConfigurationError, match=re.escape(complaint)):
        sink_options({**NEEDED, name: "x"})


def test_what_kafka_s_source_calls_alike_is_none_of_its_own() -> None:
    assert all(instead_of(name) is None for name in {*BATCH, *STREAM, *SINK})


def test_a_value_is_shown_as_it_was_written() -> None:
    with pytest.raises(ConfigurationError, match="option failOnDataLoss='Maybe': write true or false"):
        source_options({**NEEDED, "failondataloss": "Maybe"}, streaming=True)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "complaint", "trigger"),
    [
        ("startingOffsets", "option startingOffsets='x': write earliest, latest, or", {"availableNow": True}),
        ("kafka.max.poll.records", "is Kafka's; leave it out: there is no client", {"processingTime": "1 second"}),
    ],
)
def test_a_stream_says_of_a_wrong_option_what_a_batch_read_says(
    spark: Any, tmp_path: Path, name: str, complaint: str, trigger: dict[str, Any]
) -> None:
    """Spark ended it in an UnboundLocalError of its own. With a schema, `load()` looks at no options."""
    given = {**NEEDED, name: "x"}
    with pytest.raises(Exception, match=re.escape(complaint)) as of_batch:
        spark.read.format("rocketmq").options(**given).schema("offset bigint").load().collect()

    frame = spark.readStream.format("rocketmq").options(**given).schema("offset bigint").load()
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).trigger(**trigger).start()
    with pytest.raises(Exception, match=re.escape(complaint)) as of_stream:
        query.awaitTermination(300)

    assert "UnboundLocalError" not in str(of_stream.value)
    assert cause_of(of_batch.value) == cause_of(of_stream.value)
    assert complaint in cause_of(of_stream.value)
