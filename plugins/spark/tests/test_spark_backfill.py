"""`framework-app spark backfill`: its pieces, what it refuses, and a run that is interrupted and goes on."""

from __future__ import annotations

import argparse
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from framework_spark import command
from framework_spark.backfill import PLAN, Plan, planned, run
from framework_spark.settings import SparkSettings

from framework.errors import ConfigurationError
from framework.settings.schema import ClusterSettings
from tests.reading.threads import ThreadBox, texts


def options(*words: str) -> Any:
    parser = argparse.ArgumentParser()
    command.SparkCommand(SparkSettings()).add_options(parser)
    return parser.parse_args(["backfill", *words])


def given(*words: str) -> dict[str, str]:
    return command.given(options("--topic", "orders", "--into", "x", *words), ClusterSettings())


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 50])
def test_pieces_are_everything_once(pieces: int) -> None:
    begins = {"t": {"a": {"0": 5, "1": 0}, "b": {"0": 7}}}
    plan = Plan({}, begins, {"t": {"a": {"0": 25, "1": 3}, "b": {"0": 7}}}, pieces)
    for broker, number in (("a", "0"), ("a", "1"), ("b", "0")):
        bounds = [tuple(each["t"][broker][number] for each in plan.bounds(piece)) for piece in range(pieces)]
        assert bounds[0][0] == begins["t"][broker][number]
        assert bounds[-1][1] == plan.ends["t"][broker][number]
        assert all(before[1] == after[0] for before, after in pairwise(bounds))
    assert 23 == plan.rows
    plan.done = list(range(pieces))
    assert 23 == plan.rows_done


def test_words_become_options_of_the_source() -> None:
    assert {
        "nameServers": "127.0.0.1:9876", "topic": "orders", "startingTimestamp": "2026-01-01T00:00:00Z",
        "endingOffsets": "latest", "tags": "a || b",
    } == given("--from", "2026-01-01T00:00:00Z", "--option", "tags=a || b")  # fmt: skip
    with pytest.raises(ConfigurationError, match="--from latest: there is nothing to read"):
        given("--from", "latest")
    with pytest.raises(ConfigurationError, match="--option tags: write NAME=VALUE"):
        given("--option", "tags")


def test_a_folder_of_somebody_else_is_left_alone(box: ThreadBox, topic: str, tmp_path: Path) -> None:
    box.send(topic, texts(topic, 10), queue=0)
    given = {"nameServers": box.address, "topic": topic}
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    with pytest.raises(ConfigurationError, match="is not empty, and holds no backfill"):
        planned(given, tmp_path / "other", 5)

    first = planned(given, tmp_path / "own", 4)
    box.send(topic, texts(topic, 10, start=10), queue=0)
    assert (10, 3) == (first.rows, first.pieces)
    assert first == planned(given, tmp_path / "own", 4), "what is read was settled then"
    with pytest.raises(ConfigurationError, match=r"holds a backfill with another tags \(None, and now 'a'\)"):
        planned({**given, "tags": "a"}, tmp_path / "own", 4)


@pytest.mark.timeout(1200)
@pytest.mark.xdist_group("spark")
def test_what_was_interrupted_goes_on_and_each_offset_is_there_once(
    spark: Any, box: ThreadBox, topic: str, tmp_path: Path
) -> None:
    box.send(topic, texts(topic, 30), queue=0, broker="broker-a")
    box.send(topic, texts(topic, 30, start=30), queue=0, broker="broker-b")
    given, folder = {"nameServers": box.address, "topic": topic}, tmp_path / "orders"
    seen: list[int] = []

    def interrupted(done: int, total: int) -> None:
        seen.append(done)
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(spark, planned(given, folder, 30), folder, interrupted)
    assert [0] == json.loads((folder / PLAN).read_text())["done"]
    (folder / "piece=00001").mkdir()  # as a kill leaves one that was being written
    (folder / "piece=00001" / "torn.parquet").write_bytes(b"PAR1")
    run(spark, planned(given, folder, 30), folder, lambda done, total: seen.append(done))

    assert [0, 30, 30, 60] == seen
    rows = spark.read.parquet(str(folder)).selectExpr("broker", "offset", "cast(body as string) body").collect()
    assert {(f"broker-{'ab'[n // 30]}", n % 30, f"m{n}") for n in range(60)} == {tuple(row) for row in rows}
    assert 60 == len(rows)
