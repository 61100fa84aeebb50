"""Bars of the Spark benchmark: what was measured is held against them, and nothing else is said."""

from __future__ import annotations

from benchmarks.spark import SparkRun, bars


def run(who: str, rows: float) -> SparkRun:
    return SparkRun(who=who, rows_a_second=1.0, rows_a_cpu_second=rows, jvm=0.5, load=0.0)


def test_each_bar_that_was_measured_is_met_or_missed() -> None:
    runs = {"ours": run("ours", 300_000), "seven": run("seven", 360_000), "naive": run("naive", 200_000)}
    medians = {100: runs, 1024: {"ours": run("ours", 1)}}
    latencies = {"micro": {"ours": 160.0, "idle": 100.0}, "handler": {"ours": 45.0, "bare": 20.0}}

    assert ["met", "MISSED", "met", "MISSED"] == [line.split()[1].rstrip(":") for line in bars(medians, latencies)]
    assert [] == bars({1024: medians[1024]}, {})
    assert ["bar MISSED: rows a CPU-second at 100 B, seven columns, 350,000 or more: 349,999"] == bars(
        {100: {"seven": run("seven", 349_999)}}, {}
    )
