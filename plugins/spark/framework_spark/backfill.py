"""Writes a topic's past into Parquet, piece by piece, so that an interrupted run continues where it stopped.

The bounds of each queue and the number of pieces are computed once and kept beside the data. A piece is a share of
every queue, so that executors pull from all of them. It is written aside, renamed into its place when it is whole, and
only then noted as done: whatever dies when, no row is there twice. The note says how many folders the piece has, so one
whose folders are gone is not taken for done.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from framework.errors import FrameworkError, StoreError, shorten
from framework_spark.causes import cause_of
from framework_spark.folder import Folder
from framework_spark.mistakes import SparkMisused
from framework_spark.offsets import Offsets, flat, nested
from framework_spark.options import COLUMN, CONNECTION, source_options
from framework_spark.runs import RUNS, Run, begun
from framework_spark.schema import schema_of
from framework_spark.survey import Outages, Survey

PLAN = f"{RUNS}.json"
DAY = "day"
Progress = Callable[[int, int], None]
"""Rows that are done, and all."""

_DONE = re.compile(r"done-(\d+)\.(\d+)")
_HOW = frozenset(name.lower() for name in CONNECTION if name != "nameServers") | {
    "brokerwait", "fetchretries", "minpartitions", "maxrecordsperpartition", "failondataloss"
}  # fmt: skip
"""Options that say how messages are read and not which: they may change from run to run."""


@dataclass(slots=True)
class Plan:
    """What is read, and how far that is done."""

    given: dict[str, str]
    """Options of the source that say which messages, bounds included: another command's are refused."""
    begins: Offsets
    ends: Offsets
    pieces: int
    by: str = ""
    """DAY, or nothing: how the output is divided beside the pieces."""
    done: list[int] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return self._size(self.begins, self.ends)

    @property
    def rows_done(self) -> int:
        return sum(self._size(*self.bounds(number)) for number in self.done)

    @property
    def is_done(self) -> bool:
        return len(self.done) == self.pieces

    def bounds(self, number: int) -> tuple[Offsets, Offsets]:
        """Where the piece begins and ends in every queue."""
        return self._at(number), self._at(number + 1)

    def _at(self, number: int) -> Offsets:
        begins, ends = flat(self.begins), flat(self.ends)
        return nested({queue: begin + (ends[queue] - begin) * number // self.pieces for queue, begin in begins.items()})

    @staticmethod
    def _size(begins: Offsets, ends: Offsets) -> int:
        low = flat(begins)
        return sum(end - low[queue] for queue, end in flat(ends).items())


def backfill(
    session: Any,
    given: Mapping[str, str],
    folder: Folder,
    *,
    by: str = "",
    piece_rows: int,
    take_over: int | None = None,
    progress: Progress,
) -> Plan:
    """Write what is not written yet. ConfigurationError where somebody else's is there, StoreError for another run."""
    _check_columns(given, by)
    plan = found(folder, given, by)
    if plan is not None and plan.is_done:
        return plan
    with begun(folder, take_over) as run:
        plan = found(folder, given, by)  # again, since another one may have come between
        if plan is None:
            plan = _planned(given, by, piece_rows)
            folder.put(PLAN, json.dumps(asdict(plan)))
        _write(session, plan, given, folder, run, progress)
    return plan


def found(folder: Folder, given: Mapping[str, str], by: str) -> Plan | None:
    """The plan of this same command, with the pieces that are done, if one lies there. It changes nothing.

    ConfigurationError for whatever else is there.
    """
    if folder.is_file():
        raise SparkMisused(f"{folder} is a file; name a folder")
    for name in (PLAN, RUNS):
        if (above := folder.above(name)) is not None:
            raise SparkMisused(
                f"{folder} is inside {above}, which holds another backfill, and its readers would find both; write "
                "into a folder beside it"
            )
    text, names = folder.read(PLAN), folder.names()
    if text is None:
        strange = [name for name in names if name not in {RUNS, f"{PLAN}.new"}]
        strange += [f"{RUNS}/{name}" for name in folder.names(RUNS) if _DONE.fullmatch(name)]  # of another plan
        if strange:
            raise SparkMisused(f"{folder} holds {shorten(strange[0])}, and no backfill; write into a new folder")
        return None
    plan = _plan_of(text, folder)
    _check_same(plan, given, by, folder)
    first = f"{DAY if by else 'piece'}="
    strange = [name for name in names if not name.startswith((first, "_", "."))]
    if strange:
        raise SparkMisused(
            f"{folder} holds {shorten(strange[0])} beside its backfill, and readers would find both; move that away"
        )
    plan.done = sorted({*plan.done, *_noted(folder, _places(folder, names, by))})  # plans of before have them inside
    return plan


def _noted(folder: Folder, places: Mapping[int, list[str]]) -> Iterator[int]:
    """The pieces that are done. StoreError where a folder of one is gone."""
    for name in folder.names(RUNS):
        if note := _DONE.fullmatch(name):
            number, count = int(note[1]), int(note[2])
            if (there := len(places.get(number, []))) != count:
                raise StoreError(
                    f"{folder}: {_piece(number)} was done, and has {there} of its {count} folders; "
                    f"restore them, or remove {RUNS}/{name} to have that piece written again"
                )
            yield number


def _plan_of(text: str, folder: Folder) -> Plan:
    try:
        plan = Plan(**json.loads(text))
        low, high = flat(plan.begins), flat(plan.ends)
        is_sound = low.keys() == high.keys() and all(low[queue] <= high[queue] for queue in low)
        if not is_sound or plan.pieces < 1 or not {*plan.done} <= {*range(plan.pieces)}:
            raise ValueError("its numbers contradict each other")
        return Plan(dict(plan.given), plan.begins, plan.ends, plan.pieces, str(plan.by), sorted(plan.done))
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise SparkMisused(
            f"{folder}: {PLAN} is no plan that this version can read ({error}), so what the folder holds is unknown; "
            "write into a new folder, or restore that file"
        ) from error


_TYPED = {
    "startingoffsets": "--from", "startingtimestamp": "--from", "endingoffsets": "--to", "endingtimestamp": "--to"
}  # fmt: skip


def _check_same(plan: Plan, given: Mapping[str, str], by: str, folder: Folder) -> None:
    there, here = _as_typed(_which(plan.given, plan.by)), _as_typed(_which(given, by))
    differ = sorted(name for name in {*there, *here} if there.get(name) != here.get(name))
    if differ:
        said = ", ".join(f"{name} ({there.get(name)!r}, and now {here.get(name)!r})" for name in differ)
        raise SparkMisused(
            f"{folder} holds a backfill of topic {plan.given.get('topic')!r}, with another {said}; repeat that command "
            "to go on with it, or write into another folder"
        )


def _as_typed(which: Mapping[str, str]) -> dict[str, str]:
    """The same by what the command calls it; of the two options of an end only one is given."""
    return {_TYPED.get(name, name): value for name, value in which.items()}


def _which(given: Mapping[str, str], by: str) -> dict[str, str]:
    """What decides which rows and columns there are."""
    kept = {name.lower(): value for name, value in given.items() if name.lower() not in _HOW}
    if kept.get("damaged") != COLUMN:  # fail and skip have the same columns
        kept.pop("damaged", None)
    return {**kept, "--by": by} if by else kept


def _check_columns(given: Mapping[str, str], by: str) -> None:
    columns = {name.lower() for name in schema_of(source_options(given, streaming=False).columns).fieldNames()}
    for name in ("piece", by):
        if name in columns:
            raise SparkMisused(
                f"option propertyColumns: {name!r} is the name of a folder's column here; read that property from the "
                "column properties"
            )


def _planned(given: Mapping[str, str], by: str, piece_rows: int) -> Plan:
    options = source_options(given, streaming=False)
    survey = Survey(options)
    try:
        begins, ends = Outages(options.broker_wait_ms).outlast(survey.bounds)
    finally:
        survey.close()
    ends = {queue: max(end, begins[queue]) for queue, end in ends.items()}
    total = sum(end - begins[queue] for queue, end in ends.items())
    which = {name: value for name, value in given.items() if name.lower() not in _HOW}
    return Plan(which, nested(begins), nested(ends), max(-(-total // piece_rows), 1), by)


def _write(session: Any, plan: Plan, given: Mapping[str, str], folder: Folder, run: Run, progress: Progress) -> None:
    progress(plan.rows_done, plan.rows)
    unbound = {name: text for name, text in given.items() if not name.lower().startswith(("starting", "ending"))}
    torn = _places(folder, folder.names(), plan.by)  # where a rename is none: object stores copy
    for number in range(plan.pieces):
        if number in plan.done:
            continue
        begins, ends = plan.bounds(number)
        frame = session.read.format("rocketmq").options(
            **unbound, startingOffsets=json.dumps(begins), endingOffsets=json.dumps(ends)
        )
        aside = f"{run.aside}/{number:05}"
        try:
            _parquet(frame.load(), plan.by, folder.at(aside))
        except Exception as error:
            run.check()
            raise FrameworkError(
                f"{folder}: piece {number + 1} of {plan.pieces} was not written: {cause_of(error)}; what is done "
                "stays: mend that, and run the command again"
            ) from error
        run.check()
        for place in torn.get(number, []):
            folder.remove(place)
        days = [name for name in folder.names(aside) if name.startswith(f"{DAY}=")] if plan.by else [""]
        for day in days:
            folder.move(f"{aside}/{day}".rstrip("/"), f"{day}/{_piece(number)}".lstrip("/"))
        run.check()
        folder.create(f"{RUNS}/done-{number:05}.{len(days)}", "")
        plan.done.append(number)
        progress(plan.rows_done, plan.rows)


def _parquet(frame: Any, by: str, path: str) -> None:
    if by:
        # In UTC whatever the session's zone is: of the milliseconds, which have none.
        day = "date_from_unix_date(cast(floor(unix_millis(storeTime) / 86400000) as int))"
        frame.selectExpr("*", f"{day} as {DAY}").write.partitionBy(DAY).parquet(path)
    else:
        frame.write.parquet(path)


def _places(folder: Folder, names: Iterable[str], by: str) -> dict[int, list[str]]:
    """The folders of each piece that are there."""
    inside = [f"{day}/{name}" for day in names if day.startswith(f"{DAY}=") for name in folder.names(day)]
    places: dict[int, list[str]] = {}
    for place in inside if by else names:
        _, is_piece, number = place.rpartition("piece=")
        if is_piece and number.isdecimal():
            places.setdefault(int(number), []).append(place)
    return places


def _piece(number: int) -> str:
    return f"piece={number:05}"
