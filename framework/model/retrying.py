"""Retry: how a handler's failures are tried again, said at the handler."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from framework.errors import ConfigurationError, nearest, retold, shorten
from framework.mistakes import RetryWrong
from framework.model.durations import to_ms
from framework.model.outcome import DeadLetter, Drop

Errors: TypeAlias = "type[Exception] | tuple[type[Exception], ...]"

_OPTIONS = ("on", "give_up_on", "max", "delays", "within", "then")


class Retry:
    """Which failures are retried, how often, after which delays, and what happens to the message then.

    `on`: exceptions that are retried; any other goes to `then` at once. `give_up_on`: exceptions among them that are
    not retried. `max`: retries after the first delivery; by default the group's `max_retries`. `delays`: one per retry,
    the last one for all further retries; by default RocketMQ's levels. `within`: no retry once the message is older
    than this. `then`: `DeadLetter` or `Drop`.

    A returned `RetryLater` counts as a failure like an exception in `on`, and keeps its own delay.
    """

    __slots__ = ("delays", "give_up_on", "max", "on", "then", "within_ms")

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            on: Errors = Exception,
            give_up_on: Errors = (),
            max: int | None = None,  # noqa: A002 - the user's word
            delays: Sequence[str | float] = (),
            within: str | float | None = None,
            then: type[DeadLetter | Drop] = DeadLetter,
        ) -> None: ...

    else:
        # At run time any keyword is taken, so that a wrong one fails with its place and the nearest right name.

        def __init__(self, *positional: object, **options: object) -> None:
            try:
                self._take(positional, options)
            except ConfigurationError as error:
                frame = inspect.currentframe()
                caller = frame.f_back if frame is not None else None
                place = None if caller is None else f"{caller.f_code.co_filename}:{caller.f_lineno}"
                raise retold(error, f"Retry: {error}", place=place) from None

    on: tuple[type[Exception], ...]
    give_up_on: tuple[type[Exception], ...]
    max: int | None
    delays: tuple[str | float, ...]
    within_ms: int | None
    then: type[DeadLetter | Drop]

    def _take(self, positional: tuple[object, ...], options: dict[str, Any]) -> None:
        if positional:
            raise RetryWrong(f"each option goes with its name, such as max=5: {', '.join(_OPTIONS)}")
        for option in options:
            if option not in _OPTIONS:
                known = nearest(option, _OPTIONS) or f"; known: {', '.join(_OPTIONS)}"
                raise RetryWrong(f"unknown option {option!r}{known}")
        self.on = _errors("on", options.get("on", Exception))
        self.give_up_on = _errors("give_up_on", options.get("give_up_on", ()))
        self.max = _number(options.get("max"))
        delays = options.get("delays", ())
        if not isinstance(delays, list | tuple):
            raise RetryWrong(f'delays={shorten(delays)}: write a list such as ["1s", "10s", "1m"]')
        self.delays = tuple(_length("delays", each) for each in delays)
        within = options.get("within")
        self.within_ms = None if within is None else to_ms(_length("within", within))
        self.then = options.get("then", DeadLetter)
        if self.then is not DeadLetter and self.then is not Drop:
            raise RetryWrong(f"then={shorten(self.then)}: write DeadLetter or Drop, the class")

    def __repr__(self) -> str:
        names = "|".join(each.__name__ for each in self.on)
        return f"<Retry on={names} max={self.max} delays={list(self.delays)} then={self.then.__name__}>"


def _errors(option: str, value: Any) -> tuple[type[Exception], ...]:
    kinds = value if isinstance(value, tuple | list) else (value,)
    for kind in kinds:
        if not isinstance(kind, type) or not issubclass(kind, Exception):
            raise RetryWrong(f"{option}={shorten(kind)}: write an exception's class, or several as (A, B)")
    return tuple(kinds)


def _number(value: Any) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise RetryWrong(f"max={shorten(value)}: write how many retries, 0 or more")


def _length(option: str, value: Any) -> str | float:
    try:
        to_ms(value)
    except (ValueError, TypeError) as error:
        raise RetryWrong(f"{option}: {error}") from None
    return value  # type: ignore[no-any-return]  # `to_ms` has looked at it
