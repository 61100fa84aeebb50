"""What a comparison says: medians, ratios ours over Java's, and the JSON that other programs read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import report, turns
from benchmarks.consume import main
from benchmarks.report import Run, features, medians, ratios, write_json


def run_of(who: str, rate: float, *, cpu: float = 1, memory: float = 10) -> Run:
    return Run(who=who, rate=rate, cpu_per_message_us=cpu, peak_memory_mb=memory, load=0)


RUNS = [
    run_of("java", 100, cpu=8, memory=400),
    run_of("ours", 300, cpu=2, memory=40),
    run_of("java", 120, cpu=8, memory=400),
    run_of("ours", 900, cpu=2, memory=40),
    run_of("java", 500, cpu=8, memory=400),
    run_of("ours", 360, cpu=2, memory=40),
]


def test_medians_are_of_each_side() -> None:
    assert (120, 360) == (medians(RUNS)["java"]["rate"], medians(RUNS)["ours"]["rate"])


def test_ratios_are_ours_over_javas() -> None:
    assert {"rate": 3, "cpu_per_message": 0.25, "peak_memory": 0.1} == ratios(RUNS)


def test_without_a_peer_there_is_nothing_to_compare() -> None:
    alone = [run for run in RUNS if run.who == "ours"]

    assert {} == ratios(alone)
    assert {} == medians(alone)["java"]


def test_the_file_has_what_others_rely_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "host", lambda: {"cpus": 2})
    write_json(tmp_path / "out.json", "consume", RUNS, {"messages": 1000})

    content = json.loads((tmp_path / "out.json").read_text())
    assert {"schema", "benchmark", "commit", "at", "host", "settings", "runs", "medians", "ratios"} == set(content)
    assert 1 == content["schema"]
    assert {"who", "rate", "cpu_per_message_us", "peak_memory_mb", "load", "stolen"} == set(content["runs"][0])


def test_a_missing_peer_has_an_exit_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.consume.jars.missing", lambda: "java was not found; install a JDK 17")

    assert 3 == main(["--messages", "10"])
    assert "java was not found" in capsys.readouterr().err


def test_what_reliability_costs_is_told() -> None:
    runs = [run_of("bare", 300, cpu=2), run_of("kept", 290, cpu=2.1), run_of("bare", 300, cpu=2.2)]

    assert report.reliability(RUNS) is None
    assert report.reliability(runs) == pytest.approx(1)
    assert "kept over bare: 1.000x the CPU a message (bar 1.10)" in report.table(runs)


def test_features_are_told_by_what_they_add_and_against_java() -> None:
    runs = [run_of("java", 100, cpu=10), run_of("async", 300, cpu=2), run_of("full", 200, cpu=4)]

    assert {"async": {"cpu_over_java": 0.2, "adds_us": 0}, "full": {"cpu_over_java": 0.4, "adds_us": 2}} == features(
        runs
    )
    assert "full: adds 2.00 us CPU a message, 0.40x Java's" in report.table(runs)
    assert {"async": {"adds_us": 0}, "full": {"adds_us": 2}} == features(runs[1:])
    assert {} == features(RUNS)
