"""The one session of a process, for every handler: its own driver's, a Spark Connect server's, or of a user's function.

A caller without a session waits on its own thread, so a Spark that is away uses up no attempt.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, cast
from urllib.parse import urlsplit

import structlog

from framework.errors import shorten
from framework_spark.causes import cause_of
from framework_spark.connection import tell
from framework_spark.limit import is_connect
from framework_spark.machine import java_here, lacking, packages_here, spark_here
from framework_spark.mistakes import SparkMissing, SparkMisused, Stopping
from framework_spark.settings import SparkSettings

_log = structlog.get_logger(__name__)

_DEFAULTS = {
    "spark.scheduler.mode": "FAIR",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.showConsoleProgress": "false",
}
CONNECT_PORT, MASTER_PORT = 15002, 7077
PAUSE_S, PAUSE_MAX_S = 1.0, 60.0  # between two attempts to make one
LOOK_S = 3.0  # for a server of Spark Connect, or a master, to take a connection


class SessionsOfThisProcess:
    """Made when it is first needed, and again when it has died. Worker threads ask: one lock around the making, none
    around jobs.
    """

    def __init__(self, settings: SparkSettings, *, pause_s: float = PAUSE_S) -> None:
        self._settings, self.pause_s = settings, pause_s
        self._looked_at = ""
        """The Python of the workers that was found fit: each group asks, and one run of it takes a second."""
        self._lock = threading.Lock()
        self._session: Any = None
        self._generation = 0
        self._stopping = threading.Event()
        self.cluster: Mapping[str, str] = {}
        """What the branches are told of the application's cluster."""

    def get(self) -> tuple[int, Any]:
        """The session, and the how manieth it is."""
        pause = self.pause_s
        with self._lock:
            while self._session is None or not self.lives(self._session):
                if self._stopping.is_set():
                    raise Stopping("no Spark session, and the application ends; the batch is delivered again")
                self._session = None
                try:
                    self._session = self.make()
                    self._generation += 1
                except Exception as error:  # noqa: BLE001 - border: Spark's
                    _log.warning("spark session missing", retry_ms=round(pause * 1000), reason=_reason(error))
                    self._stopping.wait(pause)
                    pause = min(pause * 2, PAUSE_MAX_S)
            return self._generation, self._session

    def is_alive(self, session: Any) -> bool:
        """Whether a failure of its was the job's, and not the session's."""
        with self._lock:
            return self.lives(session)

    def pause(self, seconds: float) -> None:
        """Wait on the caller's thread; Stopping where the application ends."""
        if self._stopping.wait(seconds):
            raise Stopping("the application ends; the batch is delivered again")

    def stop(self) -> None:
        """Let nobody wait for a session any more."""
        self._stopping.set()

    def check(self) -> None:
        """ConfigurationError where no session can be made here, as far as that is seen without making one."""
        packages_here(connect=bool(self._settings.remote))
        if self._settings.session:
            self._function()
        if self._settings.remote or self._settings.session:
            return
        java_here()
        spark_here()
        self._check_python()

    def _check_python(self) -> None:
        """What Spark's workers run must have this package. Which Python other machines have is not seen from here."""
        python = os.environ.get("PYSPARK_PYTHON", "")
        program = shutil.which(python) if python else None
        if not python or (program is None and not self._is_local):
            return
        if program is None:
            raise SparkMissing(f"PYSPARK_PYTHON={python}: there is no such program; correct or unset it")
        lacks = lacking(program) if program != self._looked_at else []
        if lacks:
            raise SparkMissing(
                f"PYSPARK_PYTHON={python}: Spark's workers run this Python, and it cannot do their work: "
                f"{'; '.join(lacks)}. Install framework-app-spark there, or unset PYSPARK_PYTHON"
            )
        self._looked_at = program

    @property
    def _is_local(self) -> bool:
        return self._settings.master.startswith("local")

    def make(self) -> Any:
        """A session that works, or an error."""
        session = self._given() if self._settings.session else self._built()
        _let_go_at_exit(session)
        _log.info(
            "spark session opened", **{"connect": self._settings.remote} if is_connect(session) else _facts(session)
        )
        return session

    def _given(self) -> Any:
        return self._function()()

    def _function(self) -> Callable[[], Any]:
        """The user's, which makes the session."""
        module, _, name = self._settings.session.partition(":")
        try:
            found = getattr(import_module(module), name)
        except Exception as error:
            raise SparkMisused(
                f"plugins.settings.spark.session: {self._settings.session}: {type(error).__name__}: {error}"
            ) from error
        if not callable(found):
            raise SparkMisused(
                f"plugins.settings.spark.session: {self._settings.session} is {shorten(found)}; name a function that "
                "returns the session"
            )
        return cast("Callable[[], Any]", found)

    def _built(self) -> Any:
        from pyspark.sql import SparkSession

        if self._settings.remote:
            builder = SparkSession.builder.remote(self._settings.remote).appName(self._settings.app_name)
            for name, value in self._settings.conf.items():
                builder = builder.config(name, value)
            _connectable(self._settings.remote)
            return builder.create()  # getOrCreate would answer the one that has died
        reachable(self._settings.master)
        if not os.environ.get("PYSPARK_PYTHON"):  # PySpark takes the first python3 of the PATH, which need not be ours
            os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.master(self._settings.master).appName(self._settings.app_name)
        for name, value in {**_DEFAULTS, **self._settings.conf}.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()

    def branch(self, session: Any) -> Any:
        """A handler's own, beside it: its views and settings are its own."""
        own = session.newSession()
        if is_connect(own):  # it begins with the server's settings
            _let_go_at_exit(own)
            own.conf._set_all(dict(self._settings.conf), silent=True)  # noqa: SLF001  # as its builder does
        tell(own, self.cluster)
        return own

    def lives(self, session: Any) -> bool:
        if is_connect(session):
            return self._is_served(session)
        from py4j.protocol import Py4JError

        context = session.sparkContext
        try:
            return context._jsc is not None and not context._jsc.sc().isStopped()  # noqa: SLF001  # no public way
        except (Py4JError, OSError):
            _forget_jvm()
            return False

    def _is_served(self, session: Any) -> bool:
        """Whether the server still has it. First whether there is one: PySpark would try for minutes."""
        try:
            if self._settings.remote:
                _connectable(self._settings.remote)
            session.conf.get("spark.app.name", "")
        except Exception:  # noqa: BLE001 - border: gRPC's and Spark's; another session is made then
            return False
        return not session.is_stopped


def _reason(error: Exception) -> str:
    """Of a JVM that did not come up PySpark knows nothing; what it wrote went to our stderr."""
    reason = cause_of(error)
    return f"{reason} Java's own words stand above, on stderr" if "JAVA_GATEWAY_EXITED" in reason else reason


def _facts(session: Any) -> dict[str, Any]:
    context = session.sparkContext
    return {"master": context.master, "ui": context.uiWebUrl, "application": context.applicationId}


def _let_go_at_exit(session: Any) -> None:
    """A client of Spark Connect asks its server something while the interpreter ends, which then hangs.

    The server drops a session by itself that nobody asks for.
    """
    asks = getattr(session.client, "_on_exit", None) if is_connect(session) else None
    if asks is not None:
        atexit.unregister(asks)


def _connectable(remote: str) -> None:
    """OSError where nobody listens."""
    parts = urlsplit(remote)
    socket.create_connection((parts.hostname or "", parts.port or CONNECT_PORT), LOOK_S).close()


def reachable(master: str) -> None:
    """OSError where a standalone cluster has no master that listens. Spark would try for a minute, and then speak of a
    context that was stopped.
    """
    if not master.startswith("spark://"):
        return
    refused = []
    for address in master.removeprefix("spark://").split(","):
        parts = urlsplit(f"//{address}")
        try:
            socket.create_connection((parts.hostname or "", parts.port or MASTER_PORT), LOOK_S).close()
        except OSError as error:
            refused.append(f"{address}: {error}")
        else:
            return
    raise OSError(f"no master answers ({'; '.join(refused)}); start it, or correct plugins.settings.spark.master")


def _forget_jvm() -> None:
    """PySpark keeps what led to a JVM that died, and would ask it for ever."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    for name in ("_active_spark_context", "_gateway", "_jvm"):
        setattr(SparkContext, name, None)
    for name in ("_instantiatedSession", "_activeSession"):
        if hasattr(SparkSession, name):
            setattr(SparkSession, name, None)
