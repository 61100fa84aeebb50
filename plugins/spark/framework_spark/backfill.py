"""Writes a topic's past into Parquet, piece by piece, so that an interrupted run continues where it stopped.

The bounds of each queue and the number of pieces are computed once and kept beside the data. A piece is a share of
every queue, so that executors pull from all of them; it is written whole into a folder of its own, and only then noted
as done. A piece that was interrupted is written again from its beginning.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from framework_spark.mistakes import SparkMisused
from framework_spark.offsets import flat, nested
from framework_spark.options import source_options
from framework_spark.outages import Outages
from framework_spark.queue_texts import Offsets
from framework_spark.survey import Survey

PLAN = "_backfill.json"  # Spark passes over names with an underscore
Progress = Callable[[int, int], None]
"""Rows that are done, and all."""


@dataclass(slots=True)
class Plan:
    """What is read, and how far that is done."""

    given: dict[str, str]
    """Options of the source, bounds included: another command's are refused."""
    begins: Offsets
    ends: Offsets
    pieces: int
    done: list[int] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return self._size(self.begins, self.ends)

    @property
    def rows_done(self) -> int:
        return sum(self._size(*self.bounds(number)) for number in self.done)

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


def planned(given: Mapping[str, str], folder: Path, piece_rows: int) -> Plan:
    """The plan that lies there, or a new one. ConfigurationError where it is another command's."""
    path = folder / PLAN
    if path.exists():
        plan = Plan(**json.loads(path.read_text()))
        if plan.given != dict(given):
            names = sorted(name for name in {*plan.given, *given} if plan.given.get(name) != given.get(name))
            raise SparkMisused(
                f"{folder} holds a backfill with another {names[0]} ({plan.given.get(names[0])!r}, and now "
                f"{given.get(names[0])!r}); repeat that command to go on, or write into another folder"
            )
        return plan
    if folder.exists() and any(folder.iterdir()):
        raise SparkMisused(f"{folder} is not empty, and holds no backfill; write into a new folder")
    options = source_options(given, streaming=False)
    survey = Survey(options)
    try:
        begins, ends = Outages(options.broker_wait_ms).outlast(survey.bounds)
    finally:
        survey.close()
    ends = {queue: max(end, begins[queue]) for queue, end in ends.items()}
    total = sum(end - begins[queue] for queue, end in ends.items())
    plan = Plan(dict(given), nested(begins), nested(ends), max(-(-total // piece_rows), 1))
    folder.mkdir(parents=True, exist_ok=True)
    _keep(plan, folder)
    return plan


def run(session: Any, plan: Plan, folder: Path, progress: Progress) -> None:
    """Write what is not written yet."""
    progress(plan.rows_done, plan.rows)
    bounds = {"startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp"}
    given = {name: value for name, value in plan.given.items() if name not in bounds}
    for number in range(plan.pieces):
        if number in plan.done:
            continue
        begins, ends = plan.bounds(number)
        frame = session.read.format("rocketmq").options(
            **given, startingOffsets=json.dumps(begins), endingOffsets=json.dumps(ends)
        )
        frame.load().write.mode("overwrite").parquet(str(folder / f"piece={number:05}"))
        plan.done.append(number)
        _keep(plan, folder)
        progress(plan.rows_done, plan.rows)


def _keep(plan: Plan, folder: Path) -> None:
    """Whole or not at all."""
    new = folder / f"{PLAN}.new"
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        stream.write(json.dumps(asdict(plan)))  # options may hold a password
    new.replace(folder / PLAN)
