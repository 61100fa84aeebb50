"""What a handler's annotation says that it returns: `check` says what would fail when it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import pytest

from framework import Ack, Commit, DeadLetter, Extend, Message, Retry, RetryLater, consumer, publishes
from framework.errors import ConfigurationError

Answer: TypeAlias = RetryLater | type[RetryLater] | None


def declared(annotation: Any, *, batch: int = 0, topics: tuple[str, ...] = ()) -> None:
    def handle(it: Any) -> Any: ...

    handle.__annotations__ = {"it": list[Message] if batch else Message, "return": annotation}
    consumer("orders", "billing", batch=batch)(publishes(*topics)(handle) if topics else handle)


def refused(annotation: Any, **options: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        declared(annotation, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        (type[RetryLater], "returns the class RetryLater, which fails; return RetryLater(...)"),
        (type[DeadLetter] | None, "returns the class DeadLetter, which fails; return DeadLetter(...)"),
        (type[RetryLater | DeadLetter], "returns the class RetryLater"),
        (type[ValueError], "returns the class ValueError, which fails; raise ValueError(...)"),
        ("Answer", "returns the class RetryLater"),
        (Annotated[type[Commit], "x"], "returns the class Commit"),
        (ValueError, "returns ValueError, which fails; raise ValueError(...)"),
        (KeyError | None, "returns KeyError"),
        (Extend, "returns Extend, which fails; return RetryLater(...)"),
        (Retry, "returns Retry, which fails; return RetryLater(...)"),
        (Awaitable[None], "returns Awaitable, of which nothing would have run; await it in an async handler"),
        (Generator[int, None, None], "returns Generator, of which nothing would have run"),
        (bool, "returns bool, but False would count as handled"),
    ],
)  # fmt: skip
def test_an_annotation_that_shows_a_mistaken_answer_is_refused(annotation: Any, said: str) -> None:
    assert said in refused(annotation)


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        (list[type[RetryLater] | None], "returns the class RetryLater"),
        (Sequence[bool], "returns bool, which fails; a batch handler returns None, an outcome, a list of them"),
        (bool, "returns bool, which fails"),
        (list[Retry], "returns Retry"),
    ],
)  # fmt: skip
def test_so_is_one_of_a_batch_and_of_its_list(annotation: Any, said: str) -> None:
    assert said in refused(annotation, batch=8)


def test_so_is_one_of_a_handler_that_publishes() -> None:
    assert "returns the class RetryLater" in refused(dict[str, int] | type[RetryLater], topics=("receipts",))


@pytest.mark.parametrize(
    "annotation",
    [None, Any, int, str, RetryLater | DeadLetter | Ack | None, Literal["x"], dict[str, type[int]], Callable[[], int],
     type[int], type, "Unknown", object, list[int]],
)  # fmt: skip
def test_any_other_annotation_is_let_be(annotation: Any) -> None:
    declared(annotation)


@pytest.mark.parametrize("annotation", [None, int, list[RetryLater | Exception | None], RetryLater, Exception])
def test_a_batch_may_answer_with_each_message_s_error(annotation: Any) -> None:
    declared(annotation, batch=8)
