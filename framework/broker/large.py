"""Large requests: one at a time, a step a turn of its connection, so that the broker goes on with everybody else's.

What they hold is much more than their bodies, and a write of many rows keeps all other writes waiting. So the next one
begins when the last one is answered, which is a write when it is on disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from functools import partial

from framework.broker.request import Answer, InSteps, Request

Conclude = Callable[[Request, Callable[[], Answer], Callable[[], None]], None]
"""Act on the answer that the second makes, and call the third when all is done."""


class Large:
    """Those of a broker process that wait for each other."""

    def __init__(self, conclude: Conclude) -> None:
        self._conclude = conclude
        self._waiting: deque[_Work] = deque()
        self._is_busy = False

    def __len__(self) -> int:
        return len(self._waiting)

    def enter(self, request: Request, word: InSteps, done: Callable[[], None]) -> None:
        """See to the request when it is its turn; `done` when it is over, however it ends."""
        self._waiting.append(_Work(request, word, done, self))
        self._next()

    def _next(self) -> None:
        if not self._is_busy and self._waiting:
            self._is_busy = True
            work = self._waiting.popleft()
            work.request.client.attend(work)

    def left(self) -> None:
        self._is_busy = False
        self._next()


class _Work(Generator[None, None, None]):
    """A large request that takes its connection's turns; it ends with the connection, however far it is."""

    def __init__(self, request: Request, word: InSteps, done: Callable[[], None], owner: Large) -> None:
        self.request = request
        self._steps, self._done, self._owner = word.steps, done, owner
        self._is_handed_on = self._is_over = False

    def send(self, _: None) -> None:
        try:
            next(self._steps)
        except StopIteration as end:
            answer: Answer = end.value
            self._hand_on(lambda: answer)
            raise
        except Exception as error:  # noqa: BLE001  # border: what it means is the dispatcher's to say
            self._hand_on(partial(raise_it, error))
            raise StopIteration from None

    def throw(self, *_: object) -> None:
        self.close()

    def _hand_on(self, answer: Callable[[], Answer]) -> None:
        self._is_handed_on = True
        self._owner._conclude(self.request, answer, self._end)  # noqa: SLF001  # one idea, two classes

    def close(self) -> None:
        """The connection ended. What was handed on to the writer ends by itself."""
        self._steps.close()
        if not self._is_handed_on:
            self._end()

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._done()
            self._owner.left()


def raise_it(error: Exception) -> Answer:
    raise error
