"""Avro bodies of several versions of a schema, from a real cluster and the box, by Spark's own jar for Avro."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from framework_spark import SchemaRegistry

from framework import Message, Producer
from tests.interop import jars
from tests.interop.places import Place
from tests.lacking import lacking
from tests.reading.small_registry import framed, small_registry
from tests.reading.spark import spark_session

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.xdist_group("spark")]

AVRO = "4.2.0"  # the newest that Maven Central had; Spark 4.3 runs it
ORDER = {"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]}
NAMED = {**ORDER, "fields": [*ORDER["fields"], {"name": "article", "type": "string", "default": "?"}]}
SUBJECTS = {"orders-value": [{"id": 5, "schema": json.dumps(ORDER)}, {"id": 70_000, "schema": json.dumps(NAMED)}]}
EXAMPLE = re.search(
    r"```python\n(from framework_spark import SchemaRegistry.*?)```",
    (Path(__file__).parents[2] / "docs" / "spark.md").read_text(),
    re.DOTALL,
)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    try:
        folder = jars.brought(f"spark-avro-{AVRO}", [f"org.apache.spark:spark-avro_2.13:{AVRO}"], alone=True)
    except jars.InteropError as error:
        lacking(str(error).partition("\n")[0])
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        for jar in folder.glob("spark-avro*.jar"):
            session.sql(f"ADD JAR {jar}")
        yield session


def sent(place: Place, bodies: list[bytes]) -> str:
    topic = place.made_topic(queues=1)

    async def send() -> None:
        async with Producer(name_servers=[place.name_server]) as producer:
            for body in bodies:
                await producer.send(Message(topic, body))

    asyncio.run(send())
    return topic


def test_each_body_is_read_by_the_schema_that_it_was_written_with(spark: Any, place: Place) -> None:
    """Long 3 and -2 are 06 and 03; a text is its length and itself."""
    topic = sent(place, [framed(5, b"\x06"), framed(70_000, b"\x03\x08bolt")])
    with small_registry(SUBJECTS) as small:
        assert EXAMPLE is not None
        names: dict[str, Any] = {"frame": frame_of(spark, place, topic), "registry_url": small.url}
        exec(EXAMPLE[1], names)
        rows = names["orders"].orderBy("offset").collect()

    assert [(3, "?"), (-2, "bolt")] == [(row.order.id, row.order.article) for row in rows]


def test_an_id_that_no_version_has_fails_the_query_or_is_null(spark: Any, place: Place) -> None:
    topic = sent(place, [framed(5, b"\x06"), framed(6, b"\x06"), b"plain"])
    frame = frame_of(spark, place, topic)
    with small_registry(SUBJECTS) as small:
        registry = SchemaRegistry(small.url)
        found = frame.select(registry.avro("body", "orders-value", unknown="null").alias("order"), "offset")
        strict = frame.where("offset < 2").select(registry.avro("body", "orders-value").alias("order"))

    assert [3, None, None] == [row.order and row.order.id for row in found.orderBy("offset").collect()]
    with pytest.raises(Exception, match=r"schema id 6 is none of subject orders-value's, 5, 70000"):
        strict.collect()


@pytest.mark.parametrize("place", ["box"], indirect=True)
def test_versions_that_avro_can_read_as_the_newest_are_read_and_others_are_named(spark: Any, place: Place) -> None:
    """A field that may be null now, and one that was a text; Spark said "malformed records" of the second."""
    maybe = {**ORDER, "fields": [{"name": "id", "type": ["null", "long"], "default": None}]}
    texts = {**ORDER, "fields": [{"name": "id", "type": "string"}]}
    versions = [{"id": at, "schema": json.dumps(each)} for at, each in enumerate((ORDER, texts, maybe), start=1)]
    frame = frame_of(spark, place, sent(place, [framed(1, b"\x06"), framed(3, b"\x02\x06"), framed(2, b"\x02x")]))
    with small_registry({"orders-value": versions}) as small:
        registry = SchemaRegistry(small.url)
        found = frame.select(registry.avro("body", "orders-value", unknown="null").alias("order"), "offset")
        strict = frame.select(registry.avro("body", "orders-value").alias("order"), "offset")
        assert [3, 3] == [row.order.id for row in strict.where("offset < 2").collect()]
        assert [3, 3, None] == [row.order and row.order.id for row in found.orderBy("offset").collect()]
        with pytest.raises(
            Exception, match=r"version 2 of subject orders-value is not readable as the newest, 3: /fields"
        ):
            strict.collect()


def frame_of(spark: Any, place: Place, topic: str) -> Any:
    return spark.read.format("rocketmq").option("nameServers", place.name_server).option("topic", topic).load()
