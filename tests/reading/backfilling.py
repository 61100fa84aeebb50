"""`framework-app spark backfill` with the session of the tests."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from framework_spark import command
from framework_spark.sessions import SessionsOfThisProcess
from framework_spark.settings import SparkSettings

from framework.settings.schema import AppSettings, ClusterSettings


def options(*words: str) -> Any:
    parser = argparse.ArgumentParser()
    command.SparkCommand(SparkSettings()).add_options(parser)
    return parser.parse_args(["backfill", *words])


class Command:
    """What is typed, run here."""

    def __init__(self, spark: Any, name_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._spark = spark
        self._cluster = ClusterSettings(name_servers=(name_server,))
        monkeypatch.setattr(SessionsOfThisProcess, "make", lambda _: _Kept(spark))
        monkeypatch.setattr(SessionsOfThisProcess, "check", lambda _: None)
        monkeypatch.setattr(command, "show", self._show)
        self.progress: Callable[[int, int], None] = lambda done, total: None
        """What is done when a piece is."""

    def _show(self, done: int, total: int) -> None:
        self.progress(done, total)

    def given(self, topic: str) -> dict[str, str]:
        return command.given(options("--topic", topic, "--into", "x"), self._cluster)

    def __call__(self, topic: str, into: str, *more: str) -> int:
        arguments = options("--topic", topic, "--into", into, *more)
        return command.SparkCommand(SparkSettings()).execute(arguments, AppSettings(cluster=self._cluster))

    def rows(self, folder: Path | str) -> set[tuple[str, int]]:
        """Bodies and offsets, each once."""
        found = self._spark.read.parquet(str(folder)).selectExpr("cast(body as string)", "offset").collect()
        rows = {tuple(row) for row in found}
        assert len(rows) == len(found)
        return rows


class _Kept:
    """A session that outlasts the command."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def stop(self) -> None:
        pass
