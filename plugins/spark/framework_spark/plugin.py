"""The plugin: handlers with `engine="spark"`. It does not know the source and the sink, which Spark loads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framework.hooks import hookimpl
from framework_spark.command import SparkCommand
from framework_spark.runner import SparkRunner
from framework_spark.sessions import SessionsOfThisProcess
from framework_spark.settings import SparkSettings


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
    def app_started(self, app: Any) -> None:
        self._runner.reaches(app.settings.cluster)

    @hookimpl
    def app_stopping(self) -> None:
        self._runner.stop()
