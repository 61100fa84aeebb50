"""Bodies in Confluent's wire format: their head, and the registry that has their schemas. Avro itself is in interop."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from framework_spark import SchemaRegistry, payload, schema_id
from framework_spark.registry import RegistryFailed

from framework.errors import ConfigurationError
from tests.reading.small_registry import framed, small_registry

FIRST, SECOND = '{"type": "record", "name": "a", "fields": []}', '"string"'
SUBJECTS: dict[str, list[dict[str, Any]]] = {
    "shop/orders-value": [{"id": 7, "schema": FIRST}, {"id": 300, "schema": SECOND}],
    "texts": [{"id": 1, "schema": "{}", "schemaType": "JSON"}],
    "joined": [{"id": 2, "schema": FIRST, "references": [{"name": "x", "subject": "y", "version": 1}]}],
    "empty": [],
    "broken": [{"schema": FIRST}],
}


def test_a_version_is_asked_for_once_and_the_list_of_them_each_time() -> None:
    with small_registry(SUBJECTS) as small:
        registry = SchemaRegistry(small.url + "/")
        found = [registry.versions("shop/orders-value") for _ in range(2)]

    assert [(7, FIRST), (300, SECOND)] == [(each.id, each.text) for each in found[0]]
    assert found[0] == found[1]
    versions = "/subjects/shop%2Forders-value/versions"
    assert [versions, f"{versions}/1", f"{versions}/2", versions] == small.asked


def test_a_user_and_a_password_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_USER", "me")
    monkeypatch.setenv("SHOP_PASSWORD", "my:secret")
    with small_registry(SUBJECTS, "me:my:secret") as small:
        assert 2 == len(SchemaRegistry(small.url, "env:SHOP").versions("shop/orders-value"))
        with pytest.raises(RegistryFailed, match=r"/subjects/shop%2Forders-value/versions: 401"):
            SchemaRegistry(small.url).versions("shop/orders-value")
        with pytest.raises(ConfigurationError, match="NOBODY_USER is not set"):
            SchemaRegistry(small.url, "env:NOBODY").versions("texts")


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        ("nobody", "/subjects/nobody/versions: 404"),
        ("empty", "subject 'empty' has no version"),
        ("broken", "/subjects/broken/versions/1 is no schema"),
        ("joined", "version 1 of 'joined' refers to other schemas"),
    ],
)
def test_what_a_registry_does_not_have_is_named(subject: str, said: str) -> None:
    with small_registry(SUBJECTS) as small, pytest.raises(RegistryFailed, match=said) as failed:
        SchemaRegistry(small.url).versions(subject)

    assert small.url in str(failed.value)


def test_a_registry_that_is_not_there_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        with pytest.raises(RegistryFailed, match=r"schema registry http://127.0.0.1:.*refused"):
            SchemaRegistry(f"http://127.0.0.1:{taken.getsockname()[1]}").versions("a")


@pytest.mark.parametrize(
    ("url", "credentials"),
    [("registry:8081", ""), ("file:///etc/passwd", ""), ("http://me:hunter2@a:1", ""), ("http://a:1", "hunter2")],
)
def test_what_cannot_be_an_address_or_a_reference_is_refused(url: str, credentials: str) -> None:
    with pytest.raises(ConfigurationError, match="SchemaRegistry") as refused:
        SchemaRegistry(url, credentials)

    assert "hunter2" not in str(refused.value)


@pytest.mark.xdist_group("spark")
def test_heads_are_read_and_cut_off(spark: Any) -> None:
    bodies = [
        framed(300, b'{"price": 7}'), framed(1 << 30, b""), b"\x01" + framed(7, b"x")[1:], b"\x00\x00\x00\x01", b"",
        None, framed(9, b"\x00proto"), framed(9, b"\x02\x04proto"), framed(9, b"\x04\x02\x06proto"),
    ]  # fmt: skip
    frame = spark.createDataFrame([(at, body) for at, body in enumerate(bodies)], "at int, body binary")

    rows = frame.select(
        schema_id("body").alias("id"), payload("body").alias("data"), payload("body", is_protobuf=True).alias("proto")
    ).collect()
    prices = frame.where("at = 0").selectExpr("*").select(payload("body").cast("string").alias("text"))

    assert [300, 1 << 30, None, None, None, None, 9, 9, 9] == [row.id for row in rows]
    assert [b'{"price": 7}', b"", None, None, None, None] == [row.data for row in rows[:6]]
    assert [b"proto"] * 3 == [row.proto for row in rows[6:]]
    assert 7 == prices.selectExpr("from_json(text, 'price int') found").collect()[0].found.price


@pytest.mark.xdist_group("spark")
def test_avro_is_refused_for_what_is_not_avro(spark: Any) -> None:
    with small_registry(SUBJECTS) as small:
        registry = SchemaRegistry(small.url)
        with pytest.raises(ConfigurationError, match="version 1 of subject 'texts' is JSON, and not Avro"):
            registry.avro("body", "texts")
        with pytest.raises(ConfigurationError, match=r"unknown=.skip.*write fail or null"):
            registry.avro("body", "shop/orders-value", unknown="skip")
