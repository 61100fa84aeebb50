"""Interceptors: answer, fail, delay or drop requests, once or always. For tests and simulations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from framework.broker.request import Request
from framework.wire.command import RemotingCommand


class Lost(Enum):
    """Which half of an exchange never arrives."""

    REQUEST = "request"
    """Nothing was done."""
    ANSWER = "answer"
    """The work was done, and nobody hears of it."""


@dataclass(slots=True, kw_only=True, eq=False)
class Interceptor:
    """What happens to requests of one code. The first that matches wins, in the order in which they were added."""

    code: int
    answer: Callable[[Request], RemotingCommand] | RemotingCommand | None = None
    """Instead of the handler's."""
    lose: Lost | None = None
    delay_ms: int = 0
    """Wait before the request is looked at."""
    times: int | None = 1
    """How often; None: always."""
    when: Callable[[Request], bool] | None = None
    hits: int = field(default=0, init=False)

    @property
    def is_spent(self) -> bool:
        return self.times is not None and self.hits >= self.times

    def replacement(self, request: Request) -> RemotingCommand | None:
        """The answer that stands in for the handler's."""
        return self.answer(request) if callable(self.answer) else self.answer


class Interceptors:
    """All of a broker's; empty in production."""

    def __init__(self) -> None:
        self._all: list[Interceptor] = []

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, interceptor: Interceptor) -> Interceptor:
        self._all.append(interceptor)
        return interceptor

    def remove(self, interceptor: Interceptor) -> None:
        if interceptor in self._all:
            self._all.remove(interceptor)

    def take(self, request: Request) -> Interceptor | None:
        """The interceptor for this request, counted as used."""
        for interceptor in self._all:
            if interceptor.code == request.command.code and (interceptor.when is None or interceptor.when(request)):
                interceptor.hits += 1
                if interceptor.is_spent:
                    self._all.remove(interceptor)
                return interceptor
        return None
