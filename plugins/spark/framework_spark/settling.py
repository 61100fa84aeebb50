"""What follows from a micro-batch of `mode: source`: its failed rows, and a durable copy of each."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
import structlog

from framework.errors import RecordDamaged, shorten
from framework.model.answers import understood
from framework.model.contracts import Taking
from framework.model.death_reason import DeathReason
from framework.model.delay_levels import TO_DEAD_LETTERS
from framework.model.outcome import DeadLetter
from framework.model.queue import MessageQueue
from framework.reading import OffsetsGone, Reader, ReaderSettings
from framework_spark.causes import DEATHS_MAX, Fault, cause_of, fault_of
from framework_spark.frames import ADDRESS, Address, by_address, outcomes_at, stranger
from framework_spark.limit import JobOverLimit, limited
from framework_spark.mistakes import HeldUp, SessionDied
from framework_spark.runner import verdicts_in
from framework_spark.sessions import SessionsOfThisProcess
from framework_spark.splitting import blamed, runs_of

_log = structlog.get_logger(__name__)

CHECKED_ROWS = 65_536  # whose addresses are Python's at once
NAMED_MAX, REASON_MAX = 100, 200
"""Dead letters of a batch that have a line of their own; characters of a reason in a line."""

Row = dict[str, Any]
"""The four columns of the address, `verdict` and `reason`; `error`, the class, where one was raised."""


class Batches:
    """Runs one group's function with frames, and says which rows failed. It sends nothing and knows no query."""

    def __init__(self, taking: Taking, sessions: SessionsOfThisProcess, *, job_timeout: int | None = None) -> None:
        self._taking, self._sessions, self._job_timeout = taking, sessions, job_timeout
        self._deaths = 0
        """Runs in a row that ended with a process of Spark's."""

    def failed(self, frame: Any, session: Any) -> list[Row]:
        """Rows that failed; all of them where the function raised. Raises where something else is to blame."""
        try:
            answer = self._called(frame, session)
            found = {} if answer is None else by_address(answer)
        except (HeldUp, SessionDied):
            raise
        except Exception as error:  # noqa: BLE001 - border: the handler's, and Spark's
            return self._blamed(frame, session, error)
        if strangers := _strangers(found, frame):
            return self._blamed(frame, session, stranger(strangers))
        return [_row(dict(zip(ADDRESS, address, strict=True)), each) for address, each in found.items() if each]

    def _blamed(self, frame: Any, session: Any, error: Exception) -> list[Row]:
        self._deaths = 0
        failure = _failure(error)
        reason = failure["reason"]
        _log.warning("handler failed", handler=self._taking.name, group=self._taking.group, reason=reason)
        runs = runs_of(self._taking.function)
        if runs and not isinstance(error, JobOverLimit):
            return self._split(frame, session, error, runs)
        rows = frame.select(*ADDRESS).toArrow().to_pylist()
        return [{**row, **failure} for row in rows]

    def _called(self, frame: Any, session: Any, *, is_part: bool = False) -> pa.Table | None:
        """What the function answers or raises; HeldUp and SessionDied where it is not to blame."""
        name = self._taking.name
        try:
            # What runs is tagged by the context, which all sessions of a driver share.
            with limited(session, self._job_timeout, name):
                answer = understood(verdicts_in(self._taking.function(frame), name))
        except Exception as error:
            if not self._sessions.is_alive(session):
                raise SessionDied(name) from error
            fault, shown = fault_of(error)
            self._deaths += fault is Fault.SPARK
            if fault is Fault.READING or (fault is Fault.SPARK and not is_part and self._deaths < DEATHS_MAX):
                raise HeldUp(cause_of(shown)) from error
            raise
        self._deaths = 0
        if answer is None or isinstance(answer, pa.Table):
            return answer
        if isinstance(answer, Exception):
            raise answer
        raise TypeError(f"the handler returned {shorten(answer)}; return a frame of verdicts, or nothing")

    def _split(self, frame: Any, session: Any, error: Exception, runs: int) -> list[Row]:
        """The batch is pulled once more, and its parts are frames of what came."""
        table, branch = frame.toArrow(), frame.sparkSession
        rows = table.select(list(ADDRESS)).to_pylist()
        addresses = [tuple(row[name] for name in ADDRESS) for row in rows]

        def part(begin: int, end: int) -> list[Any]:
            answer = self._called(branch.createDataFrame(table.slice(begin, end - begin)), session, is_part=True)
            return [None] * (end - begin) if answer is None else outcomes_at(answer, addresses[begin:end])

        results, used = blamed(len(rows), error, runs, part)
        bad = sum(isinstance(each, Exception) for each in results)
        _log.warning("batch split", handler=self._taking.name, messages=len(rows), failed=bad, runs=used)
        return [_row(row, result) for row, result in zip(rows, results, strict=True) if result is not None]


def _strangers(found: Collection[Address], frame: Any) -> set[Address]:
    """Those that are no messages of the batch, which is pulled once more for that."""
    strangers = set(found)
    if strangers:
        for some in frame.select(*ADDRESS).toArrow().to_batches(max_chunksize=CHECKED_ROWS):
            strangers.difference_update(zip(*(column.to_pylist() for column in some.columns), strict=True))
    return strangers


def settle(rows: Sequence[Row], taking: Taking, settings: ReaderSettings) -> int:
    """Make a durable copy of each; answers how many are dead letters. Raises where a broker makes none.

    It waits for a broker that is away as long as the settings say: a batch that ran again would have its rows copied
    twice.
    """
    dead = 0
    if not rows:
        return dead
    driver = f"{platform.node()}@{os.getpid()}"  # it is no member of the group
    with Reader(settings) as reader:
        for row in rows:
            queue = MessageQueue(row["topic"], row["broker"], row["queueId"])
            level = TO_DEAD_LETTERS if row["verdict"] == "dead_letter" else 0
            reason = str(row.get("reason") or "")
            why = DeathReason(reason, row.get("error") or "", int(time.time() * 1000), driver)
            try:
                is_dead = reader.send_back(
                    taking.group, queue, row["offset"], delay_level=level, max_retries=taking.max_retries, why=why
                )
            except (RecordDamaged, OffsetsGone) as error:
                is_there = reader.min_offset(queue) <= row["offset"] < reader.max_offset(queue)
                if isinstance(error, OffsetsGone) and not is_there:
                    raise
                # Nobody can ask for a copy of what cannot be read, however often the batch ran again.
                _log.error("damaged message left out", group=taking.group, queue=str(queue), reason=str(error))
                continue
            if is_dead:
                dead += 1
                if dead <= NAMED_MAX:
                    _log.warning(
                        "message dead-lettered", group=taking.group, topic=queue.topic, queue=str(queue),
                        offset=row["offset"], reason=reason[:REASON_MAX],
                    )  # fmt: skip
    reason = str(rows[0].get("reason") or "")[:REASON_MAX]
    _log.info("rows sent back", group=taking.group, rows=len(rows), dead_letters=dead, reason=reason)
    return dead


def _row(address: Mapping[str, Any], result: Any) -> Row:
    if isinstance(result, Exception):
        return {**address, **_failure(result)}
    verdict = "dead_letter" if isinstance(result, DeadLetter) else "retry"
    return {**address, "verdict": verdict, "reason": result.reason}


def _failure(error: BaseException) -> Row:
    shown = cause_of(error)
    return {"verdict": "retry", "reason": shown, "error": shown.partition(":")[0]}
