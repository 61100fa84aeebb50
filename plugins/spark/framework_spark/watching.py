"""Progress of a query: what it read, how far behind it is, what it did at the brokers; and a listener that tells it.

Offsets, rows and rates are Spark's. How long messages wait, and which brokers are away, the source adds to its report.
What tasks did at the brokers reaches the driver where a ProgressListener has the session counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from framework.model.queue import MessageQueue
from framework_spark.causes import cause_of
from framework_spark.counting import Counting, Reads
from framework_spark.limit import is_connect
from framework_spark.mistakes import SparkMisused
from framework_spark.reports import brokers_away, offsets_in, read_until, seconds_behind

QUERIES_MAX = 100  # whose newest report is kept


@dataclass(frozen=True, slots=True)
class Progress:
    """A query at its newest report: all sources of RocketMQ that it has, together."""

    query: str
    """Its name, else its id."""
    batch: int
    rows: int
    batch_ms: int
    rate_in: float | None
    """Rows per second that came since the report before; None where Spark says none."""
    rate_out: float | None
    """Rows per second while the batch ran."""
    start: Mapping[MessageQueue, int]
    """Empty in the first report of a query without a checkpoint."""
    end: Mapping[MessageQueue, int]
    """Up to here the batch read; of a queue that no batch has read yet, where it begins."""
    latest: Mapping[MessageQueue, int]
    """The end of each queue when the batch was planned."""
    seconds_behind: int | None
    """How long ago the oldest message was stored that no batch asked for: 0 where there is none, None if unknown."""
    away: Mapping[str, int]
    """Broker that did not answer -> for how many seconds."""
    reads: Reads | None = None
    """What the batch's tasks did at the brokers; None without a ProgressListener that counts the query."""

    @property
    def behind(self) -> dict[MessageQueue, int]:
        """Queue -> its messages that no batch has asked for; queues with none are left out."""
        found = {queue: latest - self.end.get(queue, 0) for queue, latest in self.latest.items()}
        return {queue: count for queue, count in found.items() if count > 0}

    @property
    def messages_behind(self) -> int:
        return sum(self.behind.values())

    @property
    def most_behind(self) -> tuple[MessageQueue, int] | None:
        """The queue with most messages behind, and how many."""
        return max(self.behind.items(), key=lambda each: each[1], default=None)

    def __str__(self) -> str:
        parts = [f"{self.query}: batch {self.batch}, {self.rows} rows in {self.batch_ms} ms"]
        parts += [f"{rate:.0f} rows/s {way}" for rate, way in ((self.rate_in, "in"), (self.rate_out, "out")) if rate]
        most = self.most_behind
        if most is None:
            parts.append("nothing behind")
        else:
            waits = "" if self.seconds_behind is None else f" and {self.seconds_behind} s"
            parts.append(f"{self.messages_behind} messages{waits} behind, most in {most[0]}: {most[1]}")
        if self.reads is not None:
            reads = self.reads
            parts.append(f"{reads.pulls} pulls ({reads.empty_pulls} empty) of {reads.bytes} bytes")
            parts += [f"{reads.waits} waits of {reads.waited_ms} ms"] if reads.waits else []
        return "; ".join([*parts, *(f"broker {name} away for {seconds} s" for name, seconds in self.away.items())])


def progress(query: Any, listener: ProgressListener | None = None) -> Progress | None:
    """A query's newest report; None before the first, and of a query that reads nothing of RocketMQ.

    With a listener its `reads` are there as well.
    """
    if listener is not None:
        return listener.progress(query)
    newest = query.lastProgress
    return progress_of(newest) if newest else None


def reason(query: Any) -> str:
    """Why a query has ended, in one line: what was raised at first, without Spark's plan. Empty where nothing was."""
    if not query.isActive:
        try:
            query.awaitTermination(0.001)  # what `exception()` answers knows of no cause in the JVM
        except Exception as error:  # noqa: BLE001 - border: Spark's, of whichever kind
            return cause_of(error)
    return ""


def progress_of(report: Mapping[str, Any], reads: Reads | None = None) -> Progress | None:
    """Spark's report of one batch, as `lastProgress` or a listener has it."""
    sources = [source for source in report["sources"] if offsets_in(source["endOffset"])]
    if not sources:
        return None
    start: dict[MessageQueue, int] = {}
    end: dict[MessageQueue, int] = {}
    latest: dict[MessageQueue, int] = {}
    away: dict[str, int] = {}
    seconds: list[int | None] = []
    for source in sources:
        start |= offsets_in(source.get("startOffset"))
        end |= read_until(source)
        found = offsets_in(source.get("latestOffset"))
        latest |= found
        away |= brokers_away(source)
        is_behind = any(upto > end.get(queue, 0) for queue, upto in found.items())
        seconds.append(seconds_behind(source) if is_behind else 0)
    known = [each for each in seconds if each is not None]
    return Progress(
        query=report.get("name") or str(report["id"]),
        batch=int(report["batchId"]),
        rows=int(report["numInputRows"]),
        batch_ms=int(report["durationMs"].get("triggerExecution", 0)),
        rate_in=_rate(report.get("inputRowsPerSecond")),
        rate_out=_rate(report.get("processedRowsPerSecond")),
        start=start,
        end=end,
        latest=latest,
        seconds_behind=max(known) if len(known) == len(seconds) else None,
        away=away,
        reads=reads,
    )


def _rate(given: Any) -> float | None:
    """A first batch has none, which is said in several ways."""
    rate = float("nan") if given is None else float(given)
    return rate if 0 <= rate < float("inf") else None


class ProgressListener(StreamingQueryListener):
    """`ProgressListener(spark, print)`: told of each report of each query that reads from RocketMQ.

    It adds itself to the session. Queries that are loaded afterwards are counted, in `reads` of their progress. `tell`
    runs on Spark's thread for listeners, which all queries share.
    """

    def __init__(self, spark: Any, tell: Callable[[Progress], object] | None = None) -> None:
        if is_connect(spark):
            raise SparkMisused(
                "ProgressListener: a client of Spark Connect cannot count what tasks do; use progress(query)"
            )
        self._spark, self._tell = spark, tell
        self._counting = Counting(spark)
        self._newest: dict[str, Progress] = {}
        spark.streams.addListener(self)

    def progress(self, query: Any) -> Progress | None:
        """The newest report of a query, also of one that has ended."""
        return self._newest.get(str(query.id))

    def close(self) -> None:
        """Hear no more."""
        self._spark.streams.removeListener(self)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  # Spark's names, here and below
        """Nothing was read yet."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Its newest report stays."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        key = str(event.progress.id)
        # By its batch: Spark tells of one while the next may be read already.
        batch = event.progress.batchId
        is_counted = self._counting.has(key, batch) or not event.progress.numInputRows
        found = progress_of(event.progress, self._counting.of(key, batch) if is_counted else None)
        if found is None:
            return
        self._newest.pop(key, None)  # so that the oldest is the first
        if len(self._newest) >= QUERIES_MAX:
            del self._newest[next(iter(self._newest))]
        self._newest[key] = found
        if self._tell is not None:
            self._tell(found)
