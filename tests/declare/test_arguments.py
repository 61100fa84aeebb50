"""What a handler's parameters ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import pytest
from pydantic import BaseModel

from framework import Delivery, Message, consumer
from framework.declare.arguments import Argument, arguments_of


class Order(BaseModel):
    number: str


def one(order: Order) -> None: ...


def several(order: Order, message: Message, raw: bytes, *, delivery: Delivery) -> None: ...


def with_defaults(order: Order, message: Message | None = None, *rest: int, depth: int = 1, **more: int) -> None: ...


def says_nothing(it) -> None: ...  # type: ignore[no-untyped-def]  # users may leave it out


def wants_of(function: Callable[..., object], **options: Any) -> list[tuple[str, str, bool, Any]]:
    return [(each.name, each.wants, each.by_name, each.many) for each in arguments_of(function, {}, **options)]


def test_each_parameter_without_a_default_is_filled() -> None:
    assert [("order", "body", False, None)] == wants_of(one)
    assert [
        ("order", "body", False, None),
        ("message", "message", False, None),
        ("raw", "body", False, None),
        ("delivery", "delivery", True, None),
    ] == wants_of(several)
    assert [("order", "body", False, None)] == wants_of(with_defaults)
    assert (Argument("it", "message"),) == arguments_of(says_nothing, {})


def test_a_batch_takes_lists_side_by_side() -> None:
    def batch(orders: list[Order], messages: Sequence[Message], seen: tuple[Delivery, ...]) -> None: ...

    assert [
        ("orders", "body", False, list),
        ("messages", "message", False, tuple),
        ("seen", "delivery", False, tuple),
    ] == wants_of(batch, is_batch=True)
    assert [("it", "message", False, list)] == wants_of(says_nothing, is_batch=True)


def test_a_list_without_a_batch_is_one_body() -> None:
    def lines(orders: list[Order]) -> None: ...

    (argument,) = arguments_of(lines, {})
    assert argument.decode is not None
    assert [Order(number="1")] == argument.decode(b'[{"number": "1"}]')


def test_a_model_may_stand_beside_its_handler() -> None:
    """In a test, or in a function that makes handlers: the name is known there and in no module."""

    class Local(BaseModel):
        pieces: int

    @consumer("stock", "inventory")
    def move(step: Local) -> None: ...

    (argument,) = move.spec.arguments
    assert argument.decode is not None
    assert Local(pieces=3) == argument.decode(b'{"pieces": 3}')


@pytest.mark.parametrize("name", ["Message", "Delivery"])
def test_our_own_names_are_known_where_only_type_checkers_import_them(name: str) -> None:
    def handle(it: object) -> None: ...

    handle.__annotations__["it"] = f"list[{name}]"
    stranger = FunctionType(handle.__code__, {}, "handle")
    stranger.__annotations__ = handle.__annotations__

    assert [("it", name.lower(), False, list)] == wants_of(stranger, is_batch=True)
