"""Bodies in Confluent's wire format: their head, and the registry that has their schemas. Avro itself is in interop."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
        with pytest.raises(RegistryFailed, match=r"/versions: 401 Unauthorized; give credentials='env:PREFIX'"):
            SchemaRegistry(small.url).versions("shop/orders-value")
        with pytest.raises(ConfigurationError, match="NOBODY_USER is not set"):
            SchemaRegistry(small.url, "env:NOBODY").versions("texts")


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        ("nobody", "/subjects/nobody/versions: 404 Not Found; a subject is usually called TOPIC-value"),
        ("a b/ü?#%2F", "/subjects/a%20b%2F%C3%BC%3F%23%252F/versions: 404"),
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
    [
        ("registry:8081", ""),
        ("http://a:port", ""),
        ("http://a:99999", ""),
        ("file:///etc/passwd", ""),
        ("http://me:hunter2@a:1", ""),
        ("http://a:1", "hunter2"),
    ],
)
def test_what_cannot_be_an_address_or_a_reference_is_refused(url: str, credentials: str) -> None:
    with pytest.raises(ConfigurationError, match="SchemaRegistry") as refused:
        SchemaRegistry(url, credentials)

    assert "hunter2" not in str(refused.value)


HOSTILE = {
    "a redirect": b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/steal\r\nContent-Length: 0\r\n\r\n",
    "not HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "half an answer": b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n[1",
    "a page": b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
    "no UTF-8": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n\xff",
    "a deep list": b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000,
    "an object": b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"a": {}}',
    "other versions": b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n[1, "2"]',
    "a long line": b"HTTP/1.1 200 OK\r\nA: " + b"a" * 100_000 + b"\r\n\r\n",
    "too much": b"HTTP/1.1 200 OK\r\n\r\n" + b"1" * 40_000,
    "nothing": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_no_registry_answers_is_an_error_of_ours(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A redirect most of all: Python's own way sends the password to wherever it points."""
    monkeypatch.setattr("framework_spark.registry.ANSWER_BYTES_MAX", 30_000 if name == "too much" else 1 << 20)
    monkeypatch.setenv("SHOP_USER", "me")
    with answering(HOSTILE[name]) as (url, asked), pytest.raises(RegistryFailed) as failed:
        SchemaRegistry(url, "env:SHOP").versions("orders-value")

    assert 1 == len(asked)
    assert str(failed.value).startswith(f"schema registry {url}: /subjects/orders-value/versions")
    if name == "a redirect":
        assert "302 Found; it points to 'http://127.0.0.1:1/steal': write the address that answers" in str(failed.value)


def test_a_registry_that_never_ends_its_answer_is_not_waited_for() -> None:
    """Each piece comes in time, and the whole never."""
    with (
        answering(b"HTTP/1.1 200 OK\r\n\r\n", endless=True) as (url, _),
        pytest.raises(RegistryFailed, match=r"TimeoutError: no whole answer within 0\.2 s"),
    ):
        SchemaRegistry(url, timeout_s=0.2).versions("orders-value")


@contextmanager
def answering(data: bytes, *, endless: bool = False) -> Iterator[tuple[str, list[bytes]]]:
    """A server of one answer, and what it was asked; `endless`: which then goes on with blanks."""
    asked: list[bytes] = []
    over = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            asked.append(self.request.recv(65536))
            with suppress(OSError):
                self.request.sendall(data)
                while endless and not over.wait(0.02):
                    self.request.sendall(b" ")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            over.set()
            server.shutdown()
            thread.join()


def test_heads_are_read_and_cut_off(spark: Any) -> None:
    bodies = [
        framed(300, b'{"price": 7}'), framed(1 << 30, b""), b"\x01" + framed(7, b"x")[1:], b"\x00\x00\x00\x01", b"",
        None, framed((1 << 32) - 1, b"x"), framed(9, b"\x00proto"), framed(9, b"\x02\x04proto"),
        framed(9, b"\x04\x02\x06proto"), framed(9, b"\x06\x82\x01\x00\x80\x80\x01proto"), framed(9, b"\x01proto"),
        framed(9, b"\x04\x80"), framed(9, b"\x00"),
    ]  # fmt: skip
    frame = spark.createDataFrame([(at, body) for at, body in enumerate(bodies)], "at int, body binary")

    rows = frame.select(
        schema_id("body").alias("id"), payload("body").alias("data"), payload("body", is_protobuf=True).alias("proto")
    ).collect()
    prices = frame.where("at = 0").selectExpr("*").select(payload("body").cast("string").alias("text"))

    assert [300, 1 << 30, None, None, None, None, (1 << 32) - 1, *[9] * 7] == [row.id for row in rows]
    assert [b'{"price": 7}', b"", None, None, None, None, b"x"] == [row.data for row in rows[:7]]
    assert [b"proto"] * 4 == [row.proto for row in rows[7:11]], "one type, one beside others, two within others"
    assert [None, None, b""] == [row.proto for row in rows[11:]], (
        "no number of indexes, half an index, an empty message"
    )
    assert 7 == prices.selectExpr("from_json(text, 'price int') found").collect()[0].found.price


def test_avro_is_refused_for_what_is_not_avro(spark: Any) -> None:
    with small_registry(SUBJECTS) as small:
        registry = SchemaRegistry(small.url)
        with pytest.raises(ConfigurationError, match="version 1 of subject 'texts' is JSON, and not Avro"):
            registry.avro("body", "texts")
        with pytest.raises(ConfigurationError, match=r"unknown=.skip.*write fail or null"):
            registry.avro("body", "shop/orders-value", unknown="skip")
