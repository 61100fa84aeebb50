"""@resource: who is given what, and what is found wrong before anything runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

import pytest

from framework import Delivery, Message, consumer, resource
from framework.declare.resources import in_order
from framework.errors import ConfigurationError


class Database:
    pass


class Session:
    pass


@resource
def database() -> Iterator[Database]:
    yield Database()


@resource(scope="message")
async def session(database: Database, message: Message) -> AsyncIterator[Session]:
    yield Session()


@resource(scope="message")
async def trail(it: Annotated[Session, session], database, delivery: Delivery) -> str:  # type: ignore[no-untyped-def]
    return ""


def asked_by(function: Any, **options: Any) -> list[str | None]:
    arguments = consumer("orders", "billing", **options)(function).spec.arguments
    return [None if each.resource is None else each.resource.name for each in arguments]


def test_a_parameter_asks_by_its_name_or_by_its_annotation() -> None:
    async def by_name(message: Message, database: Database, *, session: Session) -> None: ...
    async def by_annotation(body: bytes, anything: Annotated[Session, session]) -> None: ...
    async def says_nothing(message: Message, database) -> None: ...  # type: ignore[no-untyped-def]
    async def of_checkers(message: Message, database: OnlyForCheckers) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    assert [None, "database", "session"] == asked_by(by_name)
    assert [None, "session"] == asked_by(by_annotation)
    assert [None, "database"] == asked_by(says_nothing)
    assert [None, "database"] == asked_by(of_checkers)


def test_one_that_stands_in_a_function_is_known_there() -> None:
    @resource
    def clock() -> int:
        return 7

    @resource
    def watch(clock: int) -> int:
        return clock

    @consumer("orders", "billing")
    def bill(message: Message, watch: int) -> None: ...

    assert [None, watch] == [each.resource for each in bill.spec.arguments]


def test_what_is_needed_stands_first_and_once() -> None:
    assert [database, session, trail] == in_order([trail, session, database])
    assert (Database, Session, str) == (database.provides, session.provides, trail.provides)


def test_a_resource_is_still_a_function() -> None:
    assert isinstance(next(database()), Database)


def test_a_message_is_a_message_whatever_resources_are_called() -> None:
    @resource
    def message() -> int:
        return 7

    async def bill(message: Message) -> None: ...

    assert [None] == asked_by(bill)
    assert message() == 7


def needs_a_stranger(datbase: Database) -> None: ...
def needs_a_message(message: Message) -> None: ...
def needs_a_session(session: Session) -> None: ...


@pytest.mark.parametrize(
    ("declare", "complaint"),
    [
        (lambda: resource(scop="app")(needs_a_stranger), "unknown option 'scop'; did you mean 'scope'?"),  # type: ignore[call-overload]
        (lambda: resource(scope="batch")(needs_a_stranger), 'scope=\'batch\': write "app" or "message"'),  # type: ignore[call-overload]
        (lambda: resource(scope="app")(3), "3 is not a function"),  # type: ignore[arg-type]
        (lambda: resource("message"), "@resource('message'): write @resource"),  # type: ignore[call-overload]
        (lambda: resource(needs_a_stranger), "is no known resource; did you mean 'database'?"),
        (lambda: resource(needs_a_message), "belongs to one message, but the resource to the application"),
        (lambda: resource(needs_a_session), "'session' is opened per message"),
    ],
)
def test_a_resource_that_cannot_work_is_named_with_its_place(declare: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        declare()
    assert complaint in str(raised.value)


def plain(message: Message, session: Session) -> None: ...
async def batched(messages: list[Message], session: Session) -> None: ...
async def other_class(message: Message, database: Session) -> None: ...
async def misspelt(message: Message, databse: Database) -> None: ...


@pytest.mark.parametrize(
    ("function", "options", "complaint"),
    [
        (plain, {}, "is async and opened for each message, but the handler is a plain function"),
        (batched, {"batch": 8}, "takes the Message, but it is opened once per batch"),
        (other_class, {}, "is annotated 'Session', but the resource of that name is a Database"),
        (misspelt, {}, "did you mean 'database'?"),
    ],
)
def test_a_handler_that_cannot_be_given_it_is_named_with_its_place(
    function: Any, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        consumer("orders", "billing", **options)(function)
    assert complaint in str(raised.value)
    assert f"{__file__}:" in str(raised.value)
