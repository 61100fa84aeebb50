"""@consumer: what it keeps of a function, and everything that it refuses."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import pytest

import framework
from framework import Consumer, Delivery, Message, Retry, RetryLater, consumer
from framework.declare.arguments import Argument
from framework.errors import ConfigurationError, ConfigurationMistakes

if TYPE_CHECKING:
    from collections import OrderedDict

HERE = __file__
PLAIN_ORDER = (Argument("order", "message"),)


def refused(function: Callable[..., Any], *positional: Any, **options: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        consumer(*positional, **options)(function)
    return str(caught.value)


def test_the_function_stays_what_it_was() -> None:
    @consumer("orders", "billing")
    def bill(order: Message, factor: int = 2) -> int:
        """Takes the money."""
        return len(order.body) * factor

    assert 6 == bill(Message("orders", b"abc"))
    assert 9 == bill(Message("orders", b"abc"), factor=3)
    assert ("bill", "Takes the money.") == (bill.__name__, bill.__doc__)
    assert ["order", "factor"] == list(inspect.signature(bill).parameters)


def test_the_spec_says_what_is_consumed() -> None:
    @consumer(topic="orders", group="billing", tags="created || paid", name="money")
    async def bill(order: Message) -> None: ...

    spec = bill.spec
    line = inspect.getsourcelines(spec.function)[1]
    assert ("orders", "billing", "created || paid", False) == (spec.topic, spec.group, spec.tags, spec.orderly)
    assert ("money", f"{HERE}:{line}", PLAIN_ORDER, True) == (spec.name, spec.place, spec.arguments, spec.is_async)
    assert f"<Consumer money: topic=orders group=billing at {HERE}:{line}>" == repr(bill)


def test_a_spec_says_whether_the_order_is_kept() -> None:
    @consumer("stock", "inventory", orderly=True)
    def move(step: Message) -> None: ...

    assert move.spec.orderly
    assert "auto" == move.spec.commit

    @consumer("stock", "inventory", orderly=True, commit="manual")
    def book(message: Message) -> None: ...

    assert "manual" == book.spec.commit

    @consumer("stock", "inventory", orderly="key", key=str)
    def count(message: Message) -> None: ...

    assert (True, True, str) == (count.spec.orderly, count.spec.by_key, count.spec.key)


def test_a_spec_cannot_be_changed() -> None:
    @consumer("orders", "billing")
    def bill(order: Message) -> None: ...

    with pytest.raises(AttributeError):
        bill.spec.topic = "other"  # type: ignore[misc]  # which is the point


def test_the_annotation_says_what_is_wanted() -> None:
    @consumer("t", "g")
    def plain(it): ...  # type: ignore[no-untyped-def]  # users may leave it out

    @consumer("t", "g")
    def message(it: Message) -> None: ...

    @consumer("t", "g")
    def delivery(it: framework.Delivery) -> RetryLater | None: ...

    @consumer("t", "g")
    def anything(it: Any) -> None: ...

    assert ["message", "message", "delivery", "message"] == [
        each.spec.arguments[0].wants for each in (plain, message, delivery, anything)
    ]


def test_a_name_for_type_checkers_only_is_taken_by_its_spelling() -> None:
    """`if TYPE_CHECKING: from framework import Delivery` is good style, and the name is not there at run time."""

    def handle(it: Delivery) -> None: ...

    handle.__annotations__["it"] = "gone.Delivery"
    assert "delivery" == consumer("t", "g")(handle).spec.arguments[0].wants


def test_a_wrapped_function_is_named_by_its_own_place() -> None:
    def wrapper(function: Callable[[Message], None]) -> Callable[[Message], None]:
        @functools.wraps(function)
        def inner(it: Message) -> None:
            function(it)

        return inner

    def handle(it: Message) -> None: ...

    line = handle.__code__.co_firstlineno
    assert f"{HERE}:{line}" == consumer("t", "g")(wrapper(handle)).spec.place


def test_all_that_is_wrong_with_one_handler_is_said_at_once_and_a_typo_is_no_missing_option() -> None:
    options: Any = {"topik": "t", "group": "g h", "orderly": "yes", "batch": -1, "retries": 3}
    with pytest.raises(ConfigurationMistakes) as caught:
        consumer(**options)(good)

    texts = [str(each) for each in caught.value.mistakes]
    wanted = (
        "'topik'; did you mean 'topic'",
        "'retries'; did you mean 'retry'",
        "orderly='yes'",
        "batch=-1",
        "group 'g h'",
    )
    assert len(wanted) == len(texts)
    for each in wanted:
        assert any(each in text for text in texts), each
    assert all(text.startswith(f"{HERE}:{good.__code__.co_firstlineno}: consumer 'good': ") for text in texts)


def good(it: Message) -> None: ...


def two(it: Message, other: int) -> None: ...


def none() -> None: ...


def vague(it: Message, other) -> None: ...  # type: ignore[no-untyped-def]  # which is the mistake


def several(it: list[Message]) -> None: ...


def opaque(it: threading.Thread) -> None: ...


def ordered(it: OrderedDict[str, str]) -> None: ...


async def waits(it: Message) -> None: ...


async def yields(it: Message) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("function", "options", "reason"),
    [
        (good, {"topik": "t", "group": "g"}, "unknown option 'topik'; did you mean 'topic'?"),
        (good, {"topic": "t", "group": "g", "concurrency": 4}, "unknown option 'concurrency'; known: topic, group"),
        (good, {"topic": "t"}, "group is missing; write @consumer("),
        (good, {"topic": 3, "group": "g"}, "topic is 3; write @consumer("),
        (good, {"topic": "a b", "group": "g"}, "topic 'a b': use 1 to 127 of"),
        (good, {"topic": "t" * 128, "group": "g"}, "use 1 to 127 of"),
        (good, {"topic": "t", "group": ""}, "group '': use 1 to 120 of"),
        (good, {"topic": "t", "group": "g", "tags": ""}, "tags='': write words joined by ||"),
        (good, {"topic": "t", "group": "g", "tags": "a | b"}, "write words joined by ||"),
        (good, {"topic": "t", "group": "g", "tags": "a b"}, "write words joined by ||"),
        (good, {"topic": "t", "group": "g", "tags": ["a"]}, "tags=['a']: write a text"),
        (good, {"topic": "t", "group": "g", "name": 3}, "name=3: write a text"),
        (good, {"topic": "t", "group": "g", "orderly": "yes"}, "orderly='yes': write True, False or \"key\""),
        (
            good,
            {"topic": "t", "group": "g", "orderly": True, "key": str},
            "(the order of each key) or once=",
        ),
        (good, {"topic": "t", "group": "g", "orderly": "key", "key": "id"}, "key='id': write a plain function"),
        (
            good,
            {"topic": "t", "group": "g", "orderly": "key", "commit": "manual"},
            "needs orderly=True, the order of whole queues",
        ),
        (good, {"topic": "t", "group": "g", "key": str}, 'needs orderly="key" (the order of each key) or once="30m"'),
        (good, {"topic": "t", "group": "g", "once": True}, "once=True: write how long duplicates are dropped"),
        (good, {"topic": "t", "group": "g", "once": "0s"}, "once='0s': write how long"),
        (good, {"topic": "t", "group": "g", "once": "soon"}, "once: "),
        (good, {"topic": "t", "group": "g", "onc": "1h"}, "unknown option 'onc'; did you mean 'once'?"),
        (
            several,
            {"topic": "t", "group": "g", "once": "1h", "batch": 3},
            "leave batch out, or let the store that the batch is written to refuse duplicates (a unique key)",
        ),
        (
            good,
            {"topic": "t", "group": "g", "once": "1h", "engine": "spark"},
            "once and engine='spark': a batch is handled as a whole",
        ),
        (
            good,
            {"topic": "t", "group": "g", "once": "1h", "orderly": True, "commit": "manual"},
            'once and commit="manual"',
        ),
        (
            good,
            {"topic": "t", "group": "g", "once": "1h", "orderly": "key", "key": str},
            "it cannot be both the order's key and the duplicates' key",
        ),
        (good, {"topic": "t", "group": "g", "commit": "manual"}, 'commit="manual" needs orderly=True'),
        (good, {"topic": "t", "group": "g", "orderly": True, "commit": "hand"}, "commit='hand': write \"auto\" or"),
        (none, {"topic": "t", "group": "g"}, "has no parameter for the message; a handler gets"),
        (two, {"topic": "t", "group": "g"}, "parameter 'other' is annotated 'int'; a handler gets the body (bytes"),
        (
            vague,
            {"topic": "t", "group": "g"},
            "parameter 'other' has no annotation; with several parameters each needs one",
        ),
        (ordered, {"topic": "t", "group": "g"}, "'OrderedDict[str, str]', which is not known where the handler"),
        (several, {"topic": "t", "group": "g"}, "]'; for several messages write batch=32 in @consumer"),
        (good, {"topic": "t", "group": "g", "batch": 8}, "a batch has several messages; write it: list[Message]"),
        (several, {"topic": "t", "group": "g", "batch": 1025}, "batch=1025: write how many messages at most, 1 to"),
        (several, {"topic": "t", "group": "g", "batch": True}, "batch=True: write how many"),
        (several, {"topic": "t", "group": "g", "batch": 8, "linger": "soon"}, "linger: 'soon' is not a duration"),
        (several, {"topic": "t", "group": "g", "batch": 8, "linger": "2m"}, "linger='2m': write a duration up to 60s"),
        (several, {"topic": "t", "group": "g", "batch": 8, "linger": None}, "linger=None: write a duration"),
        (good, {"topic": "t", "group": "g", "linger": "1s"}, "linger without batch: a single message does not wait"),
        (good, {"topic": "t", "group": "g", "retry": 5}, "retry=5: write retry=Retry(max=5, ...)"),
        (good, {"topic": "t", "group": "g", "retrys": Retry()}, "unknown option 'retrys'; did you mean 'retry'?"),
        (opaque, {"topic": "t", "group": "g"}, "parameter 'it' is annotated 'Thread'; a handler gets the body"),
        (good, {"topic": "t", "group": "g", "engine": True}, "engine=True: write the name of an engine"),
        (
            good,
            {"topic": "t", "group": "g", "engine": "spark", "batch": 0},
            "engine 'spark' takes batches; write how many",
        ),
        (waits, {"topic": "t", "group": "g", "engine": "spark"}, "calls plain functions: write def, not async def"),
        (
            good,
            {"topic": "t", "group": "g", "engine": "spark", "orderly": True},
            "'spark' supports concurrent groups only",
        ),
        (yields, {"topic": "t", "group": "g"}, "handlers must not be generators"),
    ],
)
def test_a_mistake_is_said_where_the_function_is(
    function: Callable[..., Any], options: dict[str, Any], reason: str
) -> None:
    message = refused(function, **options)

    line = function.__code__.co_firstlineno
    assert message.startswith(f"{HERE}:{line}: consumer {function.__name__!r}: ")
    assert reason in message
    assert "\n" not in message


def test_topic_and_group_may_go_without_their_names_but_once() -> None:
    assert "only topic and group are positional, not 3 arguments" in refused(good, "t", "g", "x")
    assert "topic is given twice" in refused(good, "t", topic="t", group="g")


def test_the_decorator_needs_its_brackets() -> None:
    with pytest.raises(ConfigurationError, match=r":\d+: @consumer without topic and group"):
        consumer(good)  # type: ignore[call-arg, arg-type]  # which is the mistake


def test_only_functions_are_decorated_and_once() -> None:
    assert "is a consumer already" in refused(consumer("t", "g")(good), "t", "g")
    assert "is not a function" in refused(int, "t", "g")


def test_decorating_has_no_effect_beyond_the_spec() -> None:
    """One process may run the same handlers in many apps."""
    first, second = consumer("t", "g")(good), consumer("t", "g")(good)

    assert first is not second
    assert isinstance(first, Consumer)
    assert first.spec == second.spec
