"""The plugin: handlers with `engine="spark"`. What it does not know: the source and the sink, which Spark loads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framework.hooks import hookimpl
from framework_spark.command import SparkCommand
from framework_spark.runner import SparkRunner
from framework_spark.settings import SparkSettings

_DEFAULTS = {
    "spark.scheduler.mode": "FAIR",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.showConsoleProgress": "false",
}


class SessionsOfThisProcess:
    """One session of PySpark's, in the driver that this process starts."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings

    def make(self) -> Any:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(self._settings.master).appName(self._settings.app_name)
        for name, value in {**_DEFAULTS, **self._settings.conf}.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()

    def is_alive(self, session: Any) -> bool:
        from py4j.protocol import Py4JError

        context = session.sparkContext
        try:
            return context._jsc is not None and not context._jsc.sc().isStopped()  # noqa: SLF001  # no public way
        except (Py4JError, OSError):
            _forget_jvm()
            return False


def _forget_jvm() -> None:
    """PySpark keeps what led to a JVM that died, and would ask it for ever."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    for name in ("_active_spark_context", "_gateway", "_jvm"):
        setattr(SparkContext, name, None)
    for name in ("_instantiatedSession", "_activeSession"):
        if hasattr(SparkSession, name):
            setattr(SparkSession, name, None)


class SparkPlugin:
    """Made once an application; the session only when the first batch comes."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._runner = SparkRunner(SessionsOfThisProcess(settings), settings.groups)

    @staticmethod
    @hookimpl
    def register_settings() -> type[SparkSettings]:
        return SparkSettings

    @hookimpl
    def register_runners(self) -> Mapping[str, SparkRunner]:
        return {"spark": self._runner}

    @hookimpl
    def register_commands(self) -> Mapping[str, SparkCommand]:
        return {"spark": SparkCommand(self._settings)}

    @hookimpl
    def app_stopping(self) -> None:
        self._runner.stop()
