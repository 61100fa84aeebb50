"""Counting: what tasks did at the brokers, brought to the driver.

Spark takes no figures from a source in Python. But an accumulator that a task knows reaches the driver, on a cluster
too, where the source's class was registered by the driver; one that Spark found by itself has no way back. So a session
that counts gets a class of its own, with an accumulator in it. Spark adds what a task did when it succeeded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any, TypeAlias

from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam

from framework.reading import Counts

Numbers: TypeAlias = dict[str, dict[str, int]]
"""Query, and query/batch -> figure -> number; the query is empty for a batch read."""
Totals: TypeAlias = Any
"""pyspark's Accumulator of Numbers, or what adds as it does."""

KEEP_MAX = 1000  # queries and batches, those that were counted last
FIGURES = tuple(field.name for field in fields(Counts))


class Sums(AccumulatorParam[Numbers]):
    """Adds figure by figure."""

    def zero(self, value: Numbers) -> Numbers:
        return {}

    def addInPlace(self, value1: Numbers, value2: Numbers) -> Numbers:  # noqa: N802  # Spark's name
        for query, figures in value2.items():
            mine = value1.pop(query, None) or dict.fromkeys(FIGURES, 0)
            value1[query] = {name: number + figures.get(name, 0) for name, number in mine.items()}
        while len(value1) > KEEP_MAX:
            del value1[next(iter(value1))]
        return value1


@contextmanager
def counted(counts: Counts, totals: Totals | None) -> Iterator[None]:
    """Around a task's reading: what the reader did in the block goes to the driver."""
    if totals is None:
        yield
        return
    before = asdict(counts)
    try:
        yield
    finally:
        task = TaskContext.get()
        query = (task.getLocalProperty("sql.streaming.queryId") if task is not None else None) or ""
        batch = task.getLocalProperty("streaming.sql.batchId") if task is not None and query else None
        after = asdict(counts)
        figures = {name: after[name] - before[name] for name in FIGURES}
        totals.add({query: figures} if batch is None else {query: figures, f"{query}/{batch}": figures})


class Reads(Counts):
    """What tasks did at the brokers."""

    def since(self, before: Reads) -> Reads:
        return Reads(*(getattr(self, name) - getattr(before, name) for name in FIGURES))


class Counting:
    """In the driver: has a session's queries counted that are loaded from now on."""

    def __init__(self, session: Any) -> None:
        from framework_spark.datasource import RocketMQ

        self._totals: Totals = session.sparkContext.accumulator({}, Sums())
        # Made here, it is pickled by value, and the accumulator with it; a class of a module would go as its name.
        session.dataSource.register(type("CountedRocketMQ", (RocketMQ,), {"totals": self._totals}))

    def has(self, query: str, batch: int) -> bool:
        """Whether tasks of that batch were counted: not those of a query that was loaded before."""
        return f"{query}/{batch}" in self._totals.value

    def of(self, query: str, batch: int | None = None) -> Reads:
        """Of one batch of a query; without a batch, of all its runs so far in this driver."""
        return Reads(**self._totals.value.get(query if batch is None else f"{query}/{batch}", {}))
