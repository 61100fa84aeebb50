"""A handler of `mode: source`: the function of a managed streaming query that also reads the group's retry topic.

The checkpoint says what is done. A batch is done when its function returned and each row that failed has a copy on the
retry topic (or, after its last attempt, among the dead letters); before that the query does not go on, and after a
crash the batch runs again. The query is started anew, with growing pauses, whatever ended it: its session, its source
process, an executor, a broker.

Spark calls `foreachBatch` in the driver, on a thread of its own, and an exception there ends the query. So what a
handler raises is caught there and becomes copies on the retry topic. A session that died, or a copy that no broker
stores, does end the query.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import structlog

from framework.errors import FrameworkError
from framework.model.contracts import Taking
from framework.model.queue import MessageQueue
from framework.model.reserved import RETRY_PREFIX
from framework.reading import Reader
from framework_spark.causes import cause_of
from framework_spark.connection import options_of, tell
from framework_spark.counting import Counting, Reads
from framework_spark.mistakes import Stopping
from framework_spark.offsets import EARLIEST, LATEST, nested
from framework_spark.options import SourceOptions, source_options
from framework_spark.reports import end_offsets, messages_in, progress_facts, progress_lag, seconds_behind
from framework_spark.sessions import PAUSE_MAX_S, SessionsOfThisProcess
from framework_spark.settings import GroupSettings
from framework_spark.settling import Batches, settle
from framework_spark.survey import DataLost, resolved
from framework_spark.tally import Tally

_log = structlog.get_logger(__name__)

LOOK_S = 0.2  # between two looks at the query
ASK_S, TELL_S = 1.0, 60.0  # between two questions for its figures, and two lines of the log about them
COMMIT_S = 10.0  # for a batch that ended to reach the checkpoint


class ManagedQuery:
    """One group's. `run` has a thread of its own; Spark calls `_handle` on one of its threads."""

    def __init__(
        self,
        taking: Taking,
        settings: GroupSettings,
        sessions: SessionsOfThisProcess,
        *,
        tally: Tally | None = None,
    ) -> None:
        self._taking, self._settings, self._sessions = taking, settings, sessions
        self._tally = tally or Tally()
        self._given = {**_connection(taking), **settings.options}
        self._options: SourceOptions = source_options(self._given, streaming=True)  # names what cannot work, now
        self._batches = Batches(taking, sessions, job_timeout=settings.job_timeout)
        self._session: Any = None
        self._query: Any = None
        self._gate = threading.Condition()
        self._is_stopping = False
        self._is_handling = False
        self._deadline = 0.0
        self._last_batch = -1
        """The newest that the function was through with."""
        self._busy_at = time.monotonic()
        self._failures = 0
        self._restarts = 0
        self._reason = ""
        self._facts: dict[str, str] = {}
        """What Spark said of the query when it was last asked."""
        self._lag: dict[str, int] = {}
        self._counted = -1
        """The newest batch that is in the tally."""
        self._counting: Counting | None = None
        self._reads = Reads()
        """What is in the tally of this run's reading."""
        self._begins: dict[MessageQueue, int] = {}
        """Where a query without a checkpoint begins."""
        self._retried = self._dead_lettered = 0
        self._asked_at = self._told_at = time.monotonic()

    # As the framework sees it

    def run(self) -> None:
        while not self._stops():
            try:
                self._session = self._sessions.get()[1]
                self._run_query(self._session.newSession())
            except Stopping:
                break
            except Exception as error:  # noqa: BLE001 - border: Spark's, the JVM's and a broker's
                if self._stops():
                    break
                self._wait(error)

    def _stops(self) -> bool:
        return self._is_stopping

    def stop(self, drain_ms: int) -> None:
        self._deadline = time.monotonic() + drain_ms / 1000
        with self._gate:
            self._is_stopping = True
            self._gate.notify_all()

    @property
    def idle_ms(self) -> int:
        query = self._query
        if query is None or self._failures or self._is_handling:
            return 0
        return int((time.monotonic() - self._busy_at) * 1000)

    @property
    def picture(self) -> dict[str, str]:
        facts = {
            "state": "stopping" if self._is_stopping else "running" if self._query is not None else "waiting",
            "batch": str(self._last_batch),
            "restarts": str(self._restarts),
            "checkpoint": self._settings.checkpoint,
        }
        return {**facts, **self._facts, **({"reason": self._reason} if self._reason else {})}

    @property
    def lag(self) -> dict[str, int]:
        return self._lag

    @property
    def counts(self) -> dict[str, int]:
        rows = int(self._tally.figures.get("rows_total", 0))
        failed = self._retried + self._dead_lettered
        return {
            "handled": max(rows - failed, 0), "retried": self._retried, "dead_lettered": self._dead_lettered,
        }  # fmt: skip

    # The query

    def _run_query(self, session: Any) -> None:
        taking = self._taking
        tell(session, self._given)
        self._counting, self._reads = Counting(session), Reads()
        source = session.readStream.format("rocketmq").options(**self._given, startingOffsets=self._starting())
        query = (
            loaded(source, session)
            .writeStream.foreachBatch(self._handle)
            .queryName(f"{taking.group} {taking.name}")
            .option("checkpointLocation", self._settings.checkpoint)
            .trigger(processingTime=f"{max(taking.linger_ms, 1)} milliseconds")
            .start()
        )
        self._query = query
        self._busy_at = time.monotonic()
        self._counted = -1
        self._facts = _page(session, query)
        _log.info(
            "spark query started",
            group=taking.group,
            topic=taking.topic,
            checkpoint=self._settings.checkpoint,
            **self._facts,
        )
        try:
            while not self._is_stopping:
                if query.awaitTermination(LOOK_S):
                    raise FrameworkError("the query was stopped by somebody else")
                self._look(query)
            self._drain(query)
        finally:
            self._query = None

    def _look(self, query: Any) -> None:
        if query.status["isDataAvailable"]:
            self._busy_at = time.monotonic()
        if self._failures and self._last_batch >= 0:
            self._failures, self._reason = 0, ""
        now = time.monotonic()
        if now - self._asked_at >= ASK_S:
            self._asked_at = now
            self._ask(query, now)

    def _ask(self, query: Any, now: float) -> None:
        """What the snapshot shows of the query, and each minute the log, while batches come."""
        progress = query.lastProgress
        found = {"doing": str(query.status["message"]), **(progress_facts(progress) if progress else {})}
        if progress:
            self._lag = {str(queue): count for queue, count in progress_lag(progress).items()}
            self._tally.note(lag=sum(self._lag.values()), restarts_total=self._restarts)
            seconds = seconds_behind(progress["sources"][0]) if any(self._lag.values()) else 0
            if seconds is not None:
                self._tally.note(lag_seconds=seconds)
            self._count_reads(query)
            self._count(progress, query)
        is_news = found.get("spark_batch") != self._facts.get("spark_batch")
        self._facts = {**self._facts, **found}
        if is_news and now - self._told_at >= TELL_S:
            self._told_at = now
            _log.info("spark query advanced", group=self._taking.group, **self._facts)

    def _count(self, newest: Mapping[str, Any], query: Any) -> None:
        """Into the tally, what ran since the last look; Spark keeps the newest hundred batches."""
        is_next = int(newest["batchId"]) == self._counted + 1
        for progress in [newest] if is_next else query.recentProgress:
            number, took = int(progress["batchId"]), progress["durationMs"]
            if number > self._counted and "addBatch" in took:  # one without says that there was nothing to do
                self._counted = number
                is_filtered = not self._options.wanted.is_everything
                rows = messages_in(progress, self._begins, is_filtered=is_filtered)
                self._tally.ran(rows, float(took["triggerExecution"]))

    def _count_reads(self, query: Any) -> None:
        """Into the tally, what tasks did at the brokers since the last look."""
        if self._counting is None:
            return
        total = self._counting.of(str(query.id))
        more, self._reads = total.since(self._reads), total
        self._tally.count(
            pulls_total=more.pulls, empty_pulls_total=more.empty_pulls, pulled_bytes_total=more.bytes,
            broker_waits_total=more.waits, passed_over_total=more.passed_over,
        )  # fmt: skip

    def _drain(self, query: Any) -> None:
        """The batch that runs may end, and reaches the checkpoint; the group's offsets follow it."""
        with self._gate:
            self._gate.wait_for(lambda: not self._is_handling, max(self._deadline - time.monotonic(), 0))
            ended = not self._is_handling
        until = time.monotonic() + COMMIT_S
        while ended and _done(query) < self._last_batch and time.monotonic() < until:
            time.sleep(LOOK_S / 4)
        try:
            if progress := query.lastProgress:
                self._count(progress, query)
                self._count_reads(query)
            query.stop()
        finally:
            self._mirror(query)

    def _mirror(self, query: Any) -> None:
        progress = query.lastProgress
        if not progress:
            return
        with Reader(self._options.settings) as reader:
            for queue, offset in end_offsets(progress["sources"][0]).items():
                try:
                    if offset > (reader.committed(self._taking.group, queue) or 0):
                        reader.commit(self._taking.group, queue, offset)
                except FrameworkError as error:
                    _log.warning("offset not mirrored", group=self._taking.group, reason=cause_of(error))

    def _wait(self, error: Exception) -> None:
        """Something ended the query: again after a pause, which grows as long as no batch gets through."""
        pause = min(self._sessions.pause_s * 2**self._failures, PAUSE_MAX_S)
        self._failures += 1
        self._restarts += 1
        self._last_batch = -1
        self._reason = cause_of(error)
        _log.warning("spark query ended", group=self._taking.group, retry_ms=round(pause * 1000), reason=self._reason)
        with self._gate:
            self._gate.wait_for(lambda: self._is_stopping, pause)

    def _starting(self) -> str:
        """For a query without a checkpoint: where the group is at the brokers, else where its settings let it begin."""
        start, group = self._taking.start, self._taking.group
        found = {}
        with Reader(self._options.settings) as reader:
            for topic in self._options.topics:
                is_retry = topic.startswith(RETRY_PREFIX)
                for queue in reader.queues(topic):
                    offset = reader.committed(group, queue)
                    if offset is None and not is_retry and start.policy in {"time", "age"}:
                        since = start.ms if start.policy == "time" else time.time() * 1000 - start.ms
                        offset = reader.offset_at(queue, int(since))
                    elif offset is None:
                        offset = EARLIEST if is_retry or start.policy == "first" else LATEST
                    found[queue] = self._there(reader, queue, offset) if offset >= 0 else offset
                    self._begins[queue] = resolved(reader, queue, found[queue])
        return json.dumps(nested(found)) if found else "earliest"

    def _there(self, reader: Reader, queue: MessageQueue, offset: int) -> int:
        """Where to begin for this offset. Beyond the end of its queue is a loss, as of a topic that was made anew."""
        end = reader.max_offset(queue)
        if offset <= end:
            return max(offset, reader.min_offset(queue))
        reason = f"{queue} ends at offset {end}, and group {self._taking.group} is at {offset}"
        if self._options.fail_on_data_loss:
            raise DataLost(reason)
        _log.warning("offset beyond the end", group=self._taking.group, queue=str(queue), offset=offset, end=end)
        return end

    # A batch

    def _handle(self, frame: Any, number: int) -> None:
        with self._gate:
            if self._is_stopping:
                raise Stopping("the application ends; the batch runs at the next start")
            self._is_handling = True
        try:
            failed = self._batches.failed(frame, self._session)
            patient = replace(self._options.settings, patience_ms=self._options.broker_wait_ms)
            dead = settle(failed, self._taking, patient)
            self._retried += len(failed) - dead
            self._dead_lettered += dead
            self._last_batch = number
        finally:
            with self._gate:
                self._busy_at = time.monotonic()
                self._is_handling = False
                self._gate.notify_all()


def loaded(source: Any, session: Any) -> Any:
    """The source's frame, also where Spark does not find it.

    A JVM looks for sources of Python's once, in a process of its own, and believes for ever that there are none if that
    process dies. Then the source is made known by hand.
    """
    try:
        return source.load()
    except Exception as error:  # which class it is depends on what died
        if "DATA_SOURCE_NOT_FOUND" not in str(error):
            raise
    from framework_spark.datasource import RocketMQ

    session.dataSource.register(RocketMQ)
    return source.load()


def _done(query: Any) -> int:
    """The newest batch that the checkpoint has."""
    progress = query.lastProgress
    return int(progress["batchId"]) if progress else -1


def _connection(taking: Taking) -> dict[str, str]:
    """The source's options that the handler and the settings of the cluster give."""
    given = {
        **options_of(taking.cluster, f"consumer {taking.name!r}"),
        "topic": f"{taking.topic},{RETRY_PREFIX}{taking.group}",
        "group": taking.group,
        "maxOffsetsPerTrigger": str(taking.batch),
    }
    if taking.sql is not None:
        given["sql"] = taking.sql
    elif taking.tags.strip() != "*":
        given["tags"] = taking.tags
    return given


def _page(session: Any, query: Any) -> dict[str, str]:
    """Where Spark's UI shows the query, where there is a UI."""
    url = session.sparkContext.uiWebUrl
    return {"ui": f"{url}/StreamingQuery/statistics/?id={query.runId}"} if url else {}
