"""Which messages of a batch are to blame: how many runs it takes, and what stays unknown. No Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from framework_spark import side_effect_free
from framework_spark.frames import ADDRESS
from framework_spark.limit import JobOverLimit, limited
from framework_spark.mistakes import SessionDied, Stopping
from framework_spark.runner import SparkRunner
from framework_spark.settings import GroupSettings
from framework_spark.splitting import blamed, runs_of
from hypothesis import given
from hypothesis import strategies as st

from framework import consumer
from framework.errors import ConfigurationError
from framework.model.outcome import DeadLetter
from tests.reading.tables import Tables, messages

WHOLE = ValueError("the batch")


class Poisoned:
    """A handler that raises for a part with one of these in it, and says which."""

    def __init__(self, *bad: int) -> None:
        self.bad, self.parts = set(bad), list[tuple[int, int]]()

    def __call__(self, begin: int, end: int) -> list[Any]:
        self.parts.append((begin, end))
        found = sorted(self.bad & set(range(begin, end)))
        if found:
            raise ValueError(f"bad {found}")
        return [None] * (end - begin)


def found_bad(results: list[Any]) -> list[int]:
    return [index for index, each in enumerate(results) if isinstance(each, Exception)]


@given(st.integers(1, 300), st.data())
def test_with_enough_runs_exactly_the_bad_ones_are_found(count: int, data: st.DataObject) -> None:
    bad = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=5))
    run = Poisoned(*bad)

    results, used = blamed(count, WHOLE, 10_000, run)

    assert sorted(bad) == found_bad(results)
    assert used == len(run.parts)
    if count > 1:
        assert [str(results[index]) for index in sorted(bad)] == [f"bad [{index}]" for index in sorted(bad)], (
            "each has its own error, from a run of its own"
        )


@given(st.integers(1, 300), st.integers(2, 30), st.data())
def test_no_more_runs_than_said_and_never_a_bad_one_cleared(count: int, runs: int, data: st.DataObject) -> None:
    bad = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=8))
    run = Poisoned(*bad)

    results, used = blamed(count, WHOLE, runs, run)

    assert used == len(run.parts) <= runs
    assert bad <= set(found_bad(results))
    assert count == len(results)


def test_two_among_a_thousand_take_the_runs_that_are_allowed_by_default() -> None:
    results, used = blamed(1000, WHOLE, 40, Poisoned(123, 877))

    assert [123, 877] == found_bad(results)
    assert used <= 40


def test_a_message_alone_is_to_blame_without_another_run() -> None:
    assert ([WHOLE], 0) == blamed(1, WHOLE, 40, Poisoned(0))


def test_what_parts_answer_is_kept() -> None:
    def run(begin: int, end: int) -> list[Any]:
        if begin <= 2 < end:
            raise ValueError("bad")
        return [DeadLetter(str(index)) if index == 5 else None for index in range(begin, end)]

    results, _ = blamed(8, WHOLE, 40, run)

    assert [2] == found_bad(results)
    assert DeadLetter("5") == results[5]


@pytest.mark.parametrize("error", [SessionDied("revenue"), Stopping("the end")])
def test_a_session_that_dies_meanwhile_blames_nobody(error: Exception) -> None:
    def run(begin: int, end: int) -> list[Any]:
        raise error

    with pytest.raises(type(error)):
        blamed(8, WHOLE, 40, run)


def test_only_a_function_that_was_declared_so_is_split() -> None:
    def revenue(frame: Any) -> None: ...

    assert 0 == runs_of(revenue)
    assert 12 == runs_of(consumer("a", group="b", engine="spark")(side_effect_free(runs=12)(revenue)).spec.function)
    with pytest.raises(ConfigurationError, match=r"side_effect_free\(runs=1\): write a whole number, 2 or more"):
        side_effect_free(runs=1)
    with pytest.raises(ConfigurationError, match="write it below @consumer"):
        side_effect_free()(consumer("a", group="b", engine="spark")(lambda frame: None))


def test_a_batch_that_failed_is_split_and_good_rows_are_well() -> None:
    sizes: list[int] = []

    @side_effect_free()
    def revenue(frame: pa.Table) -> pa.Table:
        sizes.append(frame.num_rows)
        rows = frame.to_pylist()
        if any(row["offset"] == 6 for row in rows):
            raise ValueError("no price")
        return pa.Table.from_pylist(
            [{**{name: row[name] for name in ADDRESS}, "verdict": "dead_letter"} for row in rows if row["offset"] == 1],
            schema=pa.schema([*(frame.schema.field(name) for name in ADDRESS), ("verdict", pa.string())]),
        )

    results: Any = SparkRunner(Tables()).prepared(revenue, "revenue", "revenue")(messages(8))

    assert [6] == found_bad(results)
    assert DeadLetter("") == results[1]
    assert 8 == sizes[0]
    assert 1 == sizes[-1]
    assert [None] * 6 == [each for index, each in enumerate(results) if index not in {1, 6}]


def test_a_batch_of_too_many_bytes_is_run_in_parts_that_end_by_themselves() -> None:
    sizes: list[int] = []

    def revenue(frame: pa.Table) -> None:
        sizes.append(frame.num_rows)
        if frame.num_rows == 1:
            raise ValueError("no price")

    groups = {"revenue": GroupSettings(batch_bytes="6B")}  # type: ignore[arg-type]  # as a file has it
    results: Any = SparkRunner(Tables(), groups).prepared(revenue, "revenue", "revenue")(messages(7))

    assert [3, 3, 1] == sizes
    assert [6] == found_bad(results)


class Context:
    """As much of a SparkContext as a limit needs: cancelling a tag lets go who waits for it."""

    def __init__(self) -> None:
        import threading

        self.cancelled = threading.Event()
        self.tags: set[str] = set()

    def setInterruptOnCancel(self, is_on: bool) -> None:  # noqa: N802  # Spark's names
        assert is_on

    def addJobTag(self, tag: str) -> None:  # noqa: N802
        self.tags.add(tag)

    def removeJobTag(self, tag: str) -> None:  # noqa: N802
        self.tags.remove(tag)

    def cancelJobsWithTag(self, tag: str) -> None:  # noqa: N802
        assert tag in self.tags
        self.cancelled.set()


class Limited:
    def __init__(self) -> None:
        self.sparkContext = Context()


def test_jobs_over_their_limit_are_cancelled_and_the_handler_is_told_why() -> None:
    session = Limited()

    def handled() -> None:
        with limited(session, 10, "revenue"):
            assert session.sparkContext.cancelled.wait(60)
            raise RuntimeError("cancelled as part of cancellation of all jobs")

    with pytest.raises(JobOverLimit, match=r"revenue took longer than its job_timeout of 0\.01 s; its jobs"):
        handled()
    assert not session.sparkContext.tags


def test_a_handler_within_its_limit_keeps_its_own_error() -> None:
    session = Limited()

    with pytest.raises(KeyError), limited(session, 3_600_000, "revenue"):
        raise KeyError("price")
    assert not session.sparkContext.cancelled.is_set()
    assert not session.sparkContext.tags


def test_what_took_longer_and_came_through_counts() -> None:
    session = Limited()
    with limited(session, 1, "revenue"):
        assert session.sparkContext.cancelled.wait(60)
