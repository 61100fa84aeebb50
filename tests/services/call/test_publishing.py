"""Which messages a handler's answer is, and what comes of sending them."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from framework import Ack, Drop, Message, RetryLater
from framework.errors import BrokerUnreachable, ConfigurationError
from framework.mistakes import NotInCluster
from framework.services.call.publishing import messages_of, published


class Invoice(BaseModel):
    number: int


@dataclass
class Step:
    article: str


class Pair(NamedTuple):
    first: int
    second: int


@pytest.mark.parametrize(
    ("answer", "bodies"),
    [
        ("text", [b"text"]),
        (b"bytes", [b"bytes"]),
        ({"a": 1}, [b'{"a":1}']),
        (Invoice(number=3), [b'{"number":3}']),
        (Step("tea"), [b'{"article":"tea"}']),
        (Pair(1, 2), [b"[1,2]"]),
        (["one", {"two": 2}], [b"one", b'{"two":2}']),
        ((), []),
        (Message("invoices", "own", keys="7"), [b"own"]),
    ],
    ids=repr,
)
def test_an_answer_is_one_message_or_a_list_is_several(answer: object, bodies: list[bytes]) -> None:
    messages = messages_of(answer, ("invoices",))

    assert bodies == [message.body for message in messages]
    assert all(message.topic == "invoices" for message in messages)


@pytest.mark.parametrize(
    ("answer", "topics", "complaint"),
    [
        (Message("letters", "x"), ("invoices",), "a message for 'letters' was returned, but @publishes names invoices"),
        ("x", ("invoices", "letters"), "return Message(topic, body)"),
        (3, ("invoices",), "a value of type int cannot be a body"),
        ([None], ("invoices",), "a value of type NoneType cannot be a body"),
        pytest.param(object(), ("invoices",), "a value of type object cannot be a body", id="object"),
    ],
    ids=repr,
)
def test_what_is_no_message_is_said(answer: object, topics: tuple[str, ...], complaint: str) -> None:
    with pytest.raises((ValueError, TypeError), match=re.escape(complaint)):
        messages_of(answer, topics)


def test_a_function_says_the_order_key_of_each_result_but_of_messages() -> None:
    answer = [Invoice(number=3), "text", Message("invoices", "own", order_key="mine"), Message("invoices", "none")]

    messages = messages_of(answer, ("invoices",), order_key=lambda value: type(value).__name__)
    assert ["Invoice", "str", "mine", None] == [message.order_key for message in messages]
    assert [None] == [message.order_key for message in messages_of("x", ("invoices",), order_key=lambda _: None)]


def result_of(answer: object, error: Exception | None = None) -> tuple[object, list[bytes]]:
    sent: list[bytes] = []

    async def send(message: Message) -> None:
        if error is not None and sent:
            raise error
        sent.append(message.body)

    return asyncio.run(published(answer, ("invoices",), send)), sent


def test_an_outcome_or_nothing_sends_nothing() -> None:
    answers: list[Any] = [None, Drop("me"), RetryLater("1s"), Ack()]
    assert [(answer, []) for answer in answers] == [result_of(answer) for answer in answers]


def test_all_are_sent_in_order_before_it_is_success() -> None:
    assert (Ack(), [b"1", b"2"]) == result_of(["1", "2"])


def test_a_send_that_fails_is_another_try() -> None:
    result, sent = result_of(["1", "2"], BrokerUnreachable("broker-a: gone"))
    assert (RetryLater(reason="publishing to invoices failed: broker-a: gone"), [b"1"]) == (result, sent)


def test_so_is_one_to_a_topic_that_is_missing_where_its_key_needs_one() -> None:
    """Somebody will create it: as without a key, the handler's `Retry` has no say."""
    result, _ = result_of(["1", "2"], NotInCluster("order key 'K': the topic does not exist; create it first"))
    assert "publishing to invoices failed: order key 'K': the topic does not exist; create it first" in str(result)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (Message("invoices", b""), "the body is empty"),
        (Message("invoices", "x", properties={"TRAN_MSG": "true"}), "property TRAN_MSG is RocketMQ's own"),
        (Message("invoices", "x", order_key="\ud83d"), "holds a lone surrogate"),
    ],
)
def test_a_list_with_one_that_cannot_be_sent_sends_nothing(wrong: Message, complaint: str) -> None:
    """Each retry would send those before it again."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    with pytest.raises(ConfigurationError, match=complaint):
        asyncio.run(published(["1", wrong], ("invoices",), send))
    assert not sent


def test_a_message_that_cannot_be_sent_as_it_is_is_an_error_of_the_handler_s() -> None:
    with pytest.raises(ConfigurationError, match="too large"):
        result_of(["1", "2"], ConfigurationError("too large"))
