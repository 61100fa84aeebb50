"""How handlers with `engine="spark"` are run: each batch becomes a DataFrame, and the answer becomes outcomes.

One session for all of them, made when the first batch comes and made again when it has died. While there is none, the
batch waits here on its worker thread: no attempt is lost to a Spark that is away, and its queues hold.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import structlog

from framework.model.message import Message

_log = structlog.get_logger(__name__)

PAUSE_S, PAUSE_MAX_S = 1.0, 60.0


class Stopping(Exception):
    """The application ends while a batch waits for a session; it is delivered again."""


class Sessions(Protocol):
    """Where sessions come from."""

    def make(self) -> Any:
        """A session that works, or an error."""
        ...

    def is_alive(self, session: Any) -> bool: ...


class SparkRunner:
    """Shared by worker threads: one lock around the session, none around jobs."""

    def __init__(self, sessions: Sessions, *, pause_s: float = PAUSE_S) -> None:
        self._sessions, self._pause_s = sessions, pause_s
        self._lock = threading.Lock()
        self._session: Any = None
        self._generation = 0
        self._stopping = threading.Event()

    def prepared(self, function: Callable[..., object], name: str) -> Callable[[list[Message]], object]:
        from framework_spark.frames import table_of  # pyarrow: only for applications with such a handler

        own: list[tuple[int, Any]] = []

        def run(messages: list[Message]) -> object:
            generation, shared = self._alive()
            if not own or own[0][0] != generation:
                own[:] = [(generation, shared.newSession())]  # views and settings of a handler are its own
            frame = own[0][1].createDataFrame(table_of(messages))
            return _answered(function(frame), messages, name)

        return run

    def stop(self) -> None:
        """Let nobody wait for a session any more."""
        self._stopping.set()

    def _alive(self) -> tuple[int, Any]:
        pause = self._pause_s
        with self._lock:
            while self._session is None or not self._sessions.is_alive(self._session):
                if self._stopping.is_set():
                    raise Stopping("no Spark session, and the application ends; the batch is delivered again")
                self._session = None
                try:
                    self._session = self._sessions.make()
                    self._generation += 1
                except Exception as error:  # noqa: BLE001 - border: Spark's
                    _log.warning("no spark session", cause=f"{type(error).__name__}: {error}"[:500], again_in_s=pause)
                    self._stopping.wait(pause)
                    pause = min(pause * 2, PAUSE_MAX_S)
            return self._generation, self._session


def _answered(answer: object, messages: Sequence[Message], name: str) -> object:
    import pyarrow as pa

    from framework_spark.frames import outcomes_of

    if hasattr(answer, "toArrow"):
        if getattr(answer, "isStreaming", False):
            raise ValueError(f"handler {name} returned a streaming frame; return a batch one, or nothing")
        answer = answer.toArrow()
    return outcomes_of(answer, messages) if isinstance(answer, pa.Table) else answer
