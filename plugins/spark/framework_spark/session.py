"""The one session of a process, for every handler: made when it is first needed, and again when it has died.

A caller without a session waits on its own thread, so a Spark that is away uses up no attempt.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Protocol

import structlog

from framework_spark.causes import cause_of
from framework_spark.connection import tell
from framework_spark.trouble import Stopping

_log = structlog.get_logger(__name__)

PAUSE_S, PAUSE_MAX_S = 1.0, 60.0


class Sessions(Protocol):
    """Where sessions come from."""

    def make(self) -> Any:
        """A session that works, or an error."""
        ...

    def branch(self, session: Any) -> Any:
        """One beside it whose views and settings are its own."""
        ...

    def is_alive(self, session: Any) -> bool: ...


class SharedSession:
    """Asked by worker threads: one lock around the making, none around jobs."""

    def __init__(self, sessions: Sessions, *, pause_s: float = PAUSE_S) -> None:
        self._sessions, self.pause_s = sessions, pause_s
        self._lock = threading.Lock()
        self._session: Any = None
        self._generation = 0
        self._stopping = threading.Event()
        self.cluster: Mapping[str, str] = {}
        """What the branches are told of the application's cluster."""

    def stop(self) -> None:
        """Let nobody wait for a session any more."""
        self._stopping.set()

    def pause(self, seconds: float) -> None:
        """Wait on the caller's thread; Stopping where the application ends."""
        if self._stopping.wait(seconds):
            raise Stopping("the application ends; the batch is delivered again")

    def is_alive(self, session: Any) -> bool:
        """Whether a failure of its was the job's, and not the session's."""
        with self._lock:
            return self._sessions.is_alive(session)

    def branch(self, session: Any) -> Any:
        """A handler's own, of the shared one."""
        own = self._sessions.branch(session)
        tell(own, self.cluster)
        return own

    def get(self) -> tuple[int, Any]:
        """The session, and the how manieth it is."""
        pause = self.pause_s
        with self._lock:
            while self._session is None or not self._sessions.is_alive(self._session):
                if self._stopping.is_set():
                    raise Stopping("no Spark session, and the application ends; the batch is delivered again")
                self._session = None
                try:
                    self._session = self._sessions.make()
                    self._generation += 1
                except Exception as error:  # noqa: BLE001 - border: Spark's
                    _log.warning("spark session missing", retry_ms=round(pause * 1000), reason=cause_of(error))
                    self._stopping.wait(pause)
                    pause = min(pause * 2, PAUSE_MAX_S)
            return self._generation, self._session
