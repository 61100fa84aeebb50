"""What a producer, a message and `@publishes` are given: one rule for bodies, and a clear error for any other type."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from framework.errors import ConfigurationError
from framework.hooks.builtin.codec.codec_json import JsonCodec
from framework.model.message import Message, body_of
from framework.model.queue import MessageQueue
from framework.model.reserved import SCHEDULE_TOPIC
from framework.model.subscription import Subscription
from framework.services.call.publishing import messages_of
from tests.client.script import A, B
from tests.client.test_producer import Sending
from tests.net.memory import virtually


class Paid(BaseModel):
    number: int


@dataclass
class Shelf:
    count: int


MADE: list[tuple[object, bytes]] = [
    ({"a": 1}, b'{"a":1}'), ([1, 2], b"[1,2]"), ((1, 2), b"[1,2]"), (Paid(number=3), b'{"number":3}'),
    (Shelf(4), b'{"count":4}'), ("text", b"text"), (b"bytes", b"bytes"), (bytearray(b"b"), b"b"),
    (memoryview(b"b"), b"b"),
]  # fmt: skip
NO_BODIES: list[object] = [
    5, True, 0.5, None, {1, 2}, object(), datetime(2030, 1, 1, tzinfo=UTC), Decimal(1), UUID(int=1), Paid, Shelf,
    {"a": object()}, [Shelf],
]  # fmt: skip


@pytest.mark.parametrize(("value", "body"), MADE, ids=lambda each: type(each).__name__)
def test_a_body_is_made_in_one_way_wherever_it_is_given(value: object, body: bytes) -> None:
    """A message's, one that is published, a reply, and the codec that says so by its name."""
    answer = [value] if isinstance(value, list | tuple) else value  # of a handler it would be several

    assert body == Message("orders", value).body
    assert [body] == [each.body for each in messages_of(answer, ("orders",))]
    assert body == body_of(value)
    assert body == JsonCodec().encoder("orders")(value)


@pytest.mark.parametrize("value", NO_BODIES, ids=lambda value: type(value).__name__)
def test_anything_else_is_a_type_error_that_names_it_and_the_way_out(value: object) -> None:
    """`bytes(5)` would be five zeros, and `bytes([1, 2])` two bytes."""
    name = value.__name__ if isinstance(value, type) else type(value).__name__

    async def story() -> None:
        sending = Sending()
        for send in (sending.producer.send, sending.producer.send_one_way, sending.producer.request):
            with pytest.raises(TypeError, match=r"^message to orders: "):
                await send("orders", value)
        await sending.close()

    virtually(story)
    for make in (lambda: Message("orders", value), lambda: messages_of([value], ("orders",))):
        with pytest.raises(TypeError, match=rf"^message to orders: .*\b{name} .*json\.dumps") as caught:
            make()
        assert isinstance(caught.value, ConfigurationError)
    with pytest.raises(TypeError, match=rf"\b{name} .*json\.dumps"):
        body_of(value)


ARGUMENTS: dict[str, list[object]] = {
    "queue": [2, "broker-a", ("orders", "broker-a", 2)],
    "keys": [5, None, [1, 2], b"k", True],
    "tags": [5, ["a"], True, b"t"],
    "properties": [5, "a=b", [("a", "b")], {"a": 1}, {1: "a"}],
    "order_key": [5, b"k", ["a"]],
    "delay": [True, timedelta(seconds=5), [5]],
    "at": [5, "2030-01-01"],
    "delay_level": ["10s", 1.5, True],
    "timeout": [True, timedelta(seconds=5), [5]],
}
OF_EACH_WAY = {
    "send": set(ARGUMENTS),
    "send_one_way": set(ARGUMENTS),
    "request": {"keys", "tags", "properties", "order_key", "timeout"},
}


@pytest.mark.parametrize(("way", "name"), [(way, name) for way, names in OF_EACH_WAY.items() for name in sorted(names)])
def test_an_argument_of_another_type_is_named_with_its_value(way: str, name: str) -> None:
    async def story() -> int:
        sending = Sending()
        for value in ARGUMENTS[name]:
            with pytest.raises(TypeError) as caught:
                await getattr(sending.producer, way)("orders", "x", **{name: value})
            said = str(caught.value)
            assert isinstance(caught.value, ConfigurationError), said
            assert {"properties": "propert"}.get(name, name) in said
            assert name in {"properties", "keys"} or repr(value)[:20] in said
        await sending.close()
        return len(sending.cluster.network.requests(A) + sending.cluster.network.requests(B))

    assert 0 == virtually(story)


@pytest.mark.parametrize("name", ["queue", "keys", "tags", "properties", "order_key"])
def test_so_is_one_of_a_message(name: str) -> None:
    for value in ARGUMENTS[name]:
        with pytest.raises(TypeError, match="propert" if name == "properties" else name):
            Message("orders", "x", **{name: value})  # type: ignore[arg-type]  # the mistake
    for number in ("attempt", "queue_offset", "born_ms", "stored_ms"):
        with pytest.raises(TypeError, match=f"{number}='1': write a whole number"):
            Message("orders", "x", **{number: "1"})  # type: ignore[arg-type]  # the mistake
    for text in ("message_id", "offset_message_id"):
        with pytest.raises(TypeError, match=f"{text}=1: write a text"):
            Message("orders", "x", **{text: 1})  # type: ignore[arg-type]  # the mistake


def test_what_is_no_topic_no_message_and_no_batch_is_said() -> None:
    async def story() -> None:
        sending = Sending()
        producer: Any = sending.producer
        for wrong in (5, None, b"orders", {"topic": "orders"}):
            for send in (producer.send, producer.send_one_way, producer.request):
                with pytest.raises(TypeError, match="is no topic; give a text, or a Message"):
                    await send(wrong, "x")
            with pytest.raises(TypeError, match="is no topic; give a text"):
                await producer.queue_of(wrong, "key")
            with pytest.raises(TypeError, match=r"transaction: .*: give a Message\(topic, body\)"):
                producer.transaction(wrong)
        for batch in (5, "orders", Message("orders", "x"), ["orders"], [Message("orders", "x"), {"a": 1}]):
            with pytest.raises(TypeError, match=r"send_batch: .*: give a list of Message"):
                await producer.send_batch(batch)
        with pytest.raises(TypeError, match="queue=2: give a MessageQueue"):
            await producer.send_batch([Message("orders", "x")], queue=2)
        with pytest.raises(TypeError, match="a topic is a text"):
            Message(5, "x")  # type: ignore[arg-type]  # the mistake
        await sending.close()

    virtually(story)


def test_a_text_that_is_no_utf_8_is_said() -> None:
    with pytest.raises(ValueError, match="message to orders: the body is a text that UTF-8 cannot hold"):
        Message("orders", "\ud800")


@pytest.mark.parametrize("tags", ["created||paid", "created || paid", " paid", "paid\n"])
def test_a_tag_that_no_subscription_could_name_is_refused(tags: str) -> None:
    """Subscriptions are cut at || and stripped: only a handler of all tags would get it."""
    with pytest.raises(ValueError, match=r"message to orders: tags=.*no subscription could name this tag"):
        Message("orders", "x", tags=tags)


def test_a_tag_keeps_what_java_takes_for_no_blank() -> None:
    tag = "paid\u00a0\u2029"
    assert tag == Message("orders", "x", tags=tag).tags
    assert (tag,) == Subscription("orders", f" {tag}\t").tags


@pytest.mark.parametrize("number", [-1, "2", True])
def test_a_queue_is_one_of_a_broker_s(number: Any) -> None:
    """Brokers take a number below zero for "any": the answer then names a queue that nobody chose."""

    async def story() -> None:
        sending = Sending()
        with pytest.raises(ValueError, match=r"queue=MessageQueue\(.*its number is 0 or more"):
            await sending.send("orders", "x", queue=MessageQueue("orders", "a", number))
        await sending.close()

    virtually(story)


@pytest.mark.parametrize("topic", ["", "no topic", SCHEDULE_TOPIC])
def test_a_key_has_no_queue_of_what_is_no_topic(topic: str) -> None:
    async def story() -> None:
        sending = Sending()
        with pytest.raises(ValueError, match=f"topic '?{topic}'?: "):
            await sending.producer.queue_of(topic, "K")
        await sending.close()

    virtually(story)
