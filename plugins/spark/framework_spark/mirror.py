"""OffsetMirror: commits a group's offsets to the brokers as soon as a query reports a batch.

The source commits by itself only when Spark asks it for the next batch: with a trigger of an hour that is an hour
later. The driver hears of a batch when it is in the checkpoint, so nothing is committed that is not done.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from pyspark.sql.streaming.listener import StreamingQueryListener

from framework.errors import FrameworkError
from framework.model.queue import MessageQueue
from framework.reading import Reader
from framework_spark.mistakes import SparkMisused
from framework_spark.options import mirror_options
from framework_spark.reports import end_offsets
from framework_spark.survey import show_group, warn


class OffsetMirror(StreamingQueryListener):
    """`spark.streams.addListener(OffsetMirror(nameServers="a:9876", group="revenue", query="paid"))`.

    Options are those of the source's connection; `query` is the `queryName` of the one query that the group is a copy
    of. Forward within a run; a broker that does not answer is asked again after the next batch.
    """

    def __init__(self, *, query: str, **options: str) -> None:
        if not query:
            raise SparkMisused("OffsetMirror: query is empty; give the query a queryName, and say it here")
        self._query = query
        # A listener is called by one thread for all queries: it must not wait for a broker that is down.
        settings = mirror_options(options)
        self._group, self._settings = settings.group, replace(settings, retries=0)
        self._run: UUID | None = None
        self._told: dict[MessageQueue, int] = {}
        self._shown: set[MessageQueue] = set()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  # Spark's names, here and below
        """Nothing is done yet."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """What was done has been told."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        progress = event.progress
        if progress.name != self._query:
            return
        if progress.runId != self._run:
            self._run, self._told = progress.runId, {}
        ends: dict[MessageQueue, int] = {}
        for source in progress.sources:
            ends |= end_offsets({"endOffset": source.endOffset})
        news = {queue: offset for queue, offset in ends.items() if offset > self._told.get(queue, -1)}
        if news:
            self._tell(news)

    def _tell(self, news: dict[MessageQueue, int]) -> None:
        silent: set[str] = set()
        with Reader(self._settings) as reader:
            for queue, offset in news.items():
                if queue.broker in silent:
                    continue
                try:
                    reader.commit(self._group, queue, offset)
                except FrameworkError as error:
                    silent.add(queue.broker)
                    warn(f"offset of group {self._group} not mirrored: {error}")
                else:
                    self._told[queue] = offset
            self._shown |= show_group(reader, self._group, self._told.keys() - self._shown)
