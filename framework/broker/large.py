"""Large requests: one at a time, a step a turn of its connection, so that the broker goes on with everybody else's.

What they hold is much more than their bodies, and a write of many rows keeps all other writes waiting. So the next one
begins when the last one is answered, which is a write when it is on disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from functools import partial

from framework.broker.answers import Answer, InSteps
from framework.broker.loans import Loan
from framework.broker.request import Request
from framework.errors import FrameworkError

Conclude = Callable[[Request, Callable[[], Answer], Loan], None]
"""Act on the answer that the second makes, and give back the third when all is done."""


class Large:
    """Those of a broker process that wait for each other."""

    def __init__(self, conclude: Conclude) -> None:
        self._conclude = conclude
        self._waiting: deque[_Work] = deque()
        self._is_busy = self._is_choosing = False

    def __len__(self) -> int:
        return len(self._waiting)

    def enter(self, request: Request, word: InSteps, loan: Loan) -> None:
        """See to the request when it is its turn; the `loan` is given back when it is over, however it ends."""
        self._waiting.append(_Work(request, word, loan, self._conclude))
        self._next()

    def _next(self) -> None:
        """Begin with the next one. In a loop: thousands may wait whose connection has ended, and end when begun."""
        if self._is_choosing:
            return
        self._is_choosing = True
        try:
            while self._waiting and not self._is_busy:
                self._is_busy = True
                self._waiting.popleft().begin(self._left)
        finally:
            self._is_choosing = False

    def _left(self) -> None:
        self._is_busy = False
        self._next()


class _Work(Generator[None, None, None]):
    """A large request that takes its connection's turns; it ends with the connection, however far it is."""

    def __init__(self, request: Request, word: InSteps, loan: Loan, conclude: Conclude) -> None:
        self._request = request
        self._steps, self._loan, self._conclude = word.steps, loan, conclude

    def begin(self, left: Callable[[], None]) -> None:
        self._loan = self._loan.hand_on(left)
        with Loan(self.close) as unbegun:
            self._request.client.attend(self)
            unbegun.hand_on()

    def send(self, _: None) -> None:
        decide: Callable[[], Answer]
        try:
            next(self._steps)
        except StopIteration as end:
            decide = partial(_said, end.value)
        except FrameworkError as error:
            # Without where it was raised: what the steps have at hand, megabytes of messages, would be held by it.
            decide = partial(_raised, error.with_traceback(None))
        except Exception as error:  # noqa: BLE001  # border: what it means is the dispatcher's to say
            decide = partial(_raised, error)
        else:
            return
        self._conclude(self._request, decide, self._loan.hand_on())
        raise StopIteration

    def throw(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """The connection ended. What was handed on to the writer ends by itself."""
        with self._loan:
            self._steps.close()


def _said(answer: Answer) -> Answer:
    return answer


def _raised(error: Exception) -> Answer:
    raise error
