"""Bars of the Spark benchmark: what was measured is held against them, and nothing else is said."""

from __future__ import annotations

from benchmarks.decode import PROPERTIES
from benchmarks.spark import SparkRun, bars
from benchmarks.spark_naive import looped
from framework.wire.stored import Record, encode_record


def run(who: str, rows: float) -> SparkRun:
    return SparkRun(who=who, rows_a_second=1.0, rows_a_cpu_second=rows, jvm=0.5, load=0.0)


def test_the_bare_loop_reads_what_is_stored() -> None:
    """Or it would be beside the point to hold ours against it."""
    records = [
        Record(topic="clicks", queue_id=3, queue_offset=7 + at, body=b"x" * at, properties=PROPERTIES, born_ms=at + 1)
        for at in range(3)
    ]
    columns: list[list[object]] = [[] for _ in range(7)]

    looped(b"".join(encode_record(record) for record in records), columns)

    topics, queues, offsets, bodies, texts, born, stored = columns
    assert (["clicks"] * 3, [3] * 3, [7, 8, 9], [b"", b"x", b"xx"]) == (topics, queues, offsets, bodies)
    assert all(f"UNIQ_KEY\x01{PROPERTIES['UNIQ_KEY']}" in str(text) for text in texts)
    assert ([1000, 2000, 3000], [0, 0, 0]) == (born, stored)


def test_each_bar_that_was_measured_is_met_or_missed() -> None:
    runs = {"ours": run("ours", 300_000), "seven": run("seven", 360_000), "naive": run("naive", 200_000)}
    runs["loop"] = run("loop", 400_000)
    medians = {100: runs, 1024: {"ours": run("ours", 1)}}
    latencies = {"micro": {"ours": 160.0, "idle": 100.0}, "handler": {"ours": 45.0, "bare": 20.0}}

    assert ["met", "met", "MISSED", "met", "MISSED"] == [
        line.split()[1].rstrip(":") for line in bars(medians, latencies)
    ]
    assert [] == bars({1024: medians[1024]}, {})
    beside = {"ours": run("ours", 100), "parquet": run("parquet", 100), "kafka": run("kafka", 90)}
    beside |= {"three": run("three", 50), "three-parquet": run("three-parquet", 100)}
    assert ["ours: times parquet", "three: times three-parquet", "ours: times kafka"] == [
        line.split(", ")[1] for line in bars({100: beside}, {})
    ]
    assert ["met", "met", "MISSED"] == [line.split()[1].rstrip(":") for line in bars({100: beside}, {})]
    assert "bar MISSED: 1024 B, ours: times parquet, 1.1 or more: 1.00" in bars({1024: beside}, {})
    assert ["bar MISSED: rows a CPU-second at 100 B, seven columns, 350,000 or more: 349,999"] == bars(
        {100: {"seven": run("seven", 349_999)}}, {}
    )
