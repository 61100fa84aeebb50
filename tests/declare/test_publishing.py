"""@publishes: what is found wrong before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from framework import Commit, Message, consumer, publishes
from framework.errors import ConfigurationError


def bill(message: Message) -> str:
    return "billed"


def twice(message: Message) -> str:
    return "billed"


def by_hand(message: Message) -> Commit:
    return Commit()


def batched(messages: list[Message]) -> None: ...


def test_the_function_stays_what_it_is() -> None:
    @publishes("invoices")
    def invoice(message: Message) -> str:
        return "one"

    assert invoice(Message("orders")) == "one"
    assert consumer("orders", "billing")(invoice).spec.publishes == ("invoices",)
    assert consumer("orders", "billing")(bill).spec.publishes == ()


@pytest.mark.parametrize(
    ("declare", "complaint"),
    [
        (lambda: publishes()(bill), '@publishes names no topic; write @publishes("invoices")'),
        (lambda: publishes(3)(bill), "@publishes(3): a topic is a text"),  # type: ignore[arg-type]
        (lambda: publishes("in voices")(bill), "@publishes: topic 'in voices'"),
        (lambda: publishes("TBW102")(bill), "@publishes: topic TBW102: reserved by RocketMQ"),
        (lambda: publishes("invoices")(consumer("orders", "billing")(bill)), "between @consumer(...) and the function"),
        (lambda: publishes("a")(publishes("b")(twice)), "is there twice"),
        (lambda: publishes("a", order_key="id")(bill), "order_key='id': a function that says which"),  # type: ignore[arg-type]
        (lambda: publishes("a", "b", order_key=str)(bill), "order_key=<class 'str'>: name one topic"),
        (lambda: consumer("orders", "g", batch=8)(publishes("invoices")(batched)), "@publishes and batch=8:"),
        (
            lambda: consumer("orders", "g", orderly=True, commit="manual")(publishes("invoices")(by_hand)),
            '@publishes and commit="manual": both use what the handler returns',
        ),
    ],
)
def test_what_cannot_work_is_named_with_its_place(declare: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        declare()
    assert complaint in str(raised.value)
    assert f"{__file__}:" in str(raised.value)


def test_without_a_topic_it_says_what_to_write() -> None:
    with pytest.raises(ConfigurationError, match="@publishes without a topic; write"):
        publishes(bill)  # type: ignore[arg-type]
