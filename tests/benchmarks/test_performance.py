"""The page of performance: drawn from files of results, with each bar's judgement; a busy machine settles nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks.bars import BARS, CLAIMS, Bar
from benchmarks.performance import page, pictures, write
from benchmarks.results import Results, read_all
from benchmarks.suite import SUITE, main

HOST = {
    "cpus": 2,
    "memory_mb": 24_000,
    "system": "Linux",
    "python": "3.11.7",
    "java": "openjdk 17",
    "rocketmq": "5.5.0",
}


def written(folder: Path, name: str, *runs: dict[str, Any], load: float = 1.0) -> None:
    content = {"benchmark": name.partition("-")[0], "commit": "abc", "at": "2026-01-01", "host": HOST}
    all_runs = [{"load": load, "stolen": 0.0, **run} for run in runs]
    (folder / f"{name}.json").write_text(json.dumps({**content, "runs": all_runs}))


def consumed(who: str, rate: float, cpu: float) -> dict[str, Any]:
    return {"who": who, "rate": rate, "cpu_per_message_us": cpu, "peak_memory_mb": 50.0}


@pytest.fixture
def found(tmp_path: Path) -> dict[str, Results]:
    runs = [consumed("java", 100, 10), consumed("ours", 300, 1.5), consumed("ours", 200, 1.7), consumed("ours", 260, 9)]
    written(tmp_path, "consume-async", *runs)
    written(tmp_path, "consume-batch", consumed("java", 100, 10), consumed("ours", 300, 1), load=20)
    latency = [{"case": str(rate), "who": who, "p50_ms": 1.0, "p99_ms": 2.0, "p999_ms": 3.0, "cpu_ms_a_second": 9.0}
               for rate in (20, 1_000) for who in ("ours", "java")]  # fmt: skip
    written(tmp_path, "latency", *latency)
    costs = {"queues 8": 1.6, "queues 1024": 2.0}
    growth = [{"case": case, "who": "ours", "cpu_per_message_us": cost} for case, cost in costs.items()]
    written(tmp_path, "growth", *growth, {"case": "idle 1000", "who": "ours", "cpu_s_a_minute": 0.4})
    return read_all(tmp_path)


def row(text: str, begins: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"| {begins} |"))


def test_each_bar_has_a_row_with_its_judgement(found: dict[str, Results]) -> None:
    text = page(found)

    assert "2.60 x Java's | **not met**" in row(text, "async handler: rate")
    assert "0.170 x Java's | met" in row(text, "async handler: CPU a message")
    assert "1.25 x | **not met**" in row(text, "8 to 1,024 queues: cost a message")
    assert "0.400 s | met" in row(text, "1,000 idle queues: CPU a minute")
    assert "not settled: load 20" in row(text, "batches of 32: rate")
    assert "| not measured |" in row(text, "orderly: CPU a message")
    assert all(f"| {bar.what} |" in text for bar in BARS)
    assert all(f'| "{claim.readme}" |' in text for claim in CLAIMS)
    assert all(f"### {each.name}\n" in text for each in SUITE)


def test_what_was_measured_is_drawn_and_nothing_else(found: dict[str, Results], tmp_path: Path) -> None:
    drawn = pictures(found)

    assert {"performance-consuming.svg", "performance-latency.svg", "performance-growth.svg"} == set(drawn)
    for svg in drawn.values():
        ET.fromstring(svg)
    assert 8 == drawn["performance-latency.svg"].count("<polyline"), "four panels with two sides each"
    old = tmp_path / "docs" / "images" / "performance-peers.svg"
    old.parent.mkdir(parents=True)
    old.write_text("old")
    paths = write(tmp_path, tmp_path / "docs")
    assert 4 == len(paths)
    assert not old.exists()
    assert "](images/performance-latency.svg)" in (tmp_path / "docs" / "performance.md").read_text()


def test_every_bar_names_a_file_that_is_measured() -> None:
    names = {each.name for each in SUITE}

    assert set() == {bar.name for bar in (*BARS, *CLAIMS)} - names
    assert all((bar.least is None) != (bar.most is None) for bar in (*BARS, *CLAIMS))


def test_a_bound_is_part_of_what_is_allowed() -> None:
    bar = Bar(what="", name="", figure=lambda _: None, most=0.2)

    assert bar.holds(0.2)
    assert not bar.holds(0.21)


def test_the_suite_says_what_it_would_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["--list"])

    lines = capsys.readouterr().out.splitlines()
    assert len(SUITE) + 1 == len(lines)
    assert lines[0].endswith("python -m benchmarks.consume")


def test_what_fails_is_named_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    class Ended:
        returncode = 0

    def run(command: list[str], **_: object) -> Ended:
        asked.append(command)
        ended = Ended()
        ended.returncode = 3 if "benchmarks.latency" in command else 0
        return ended

    monkeypatch.setattr("benchmarks.suite.subprocess.run", run)

    assert 1 == main(["--only", "latency,memory", "--quick", "--to", str(tmp_path)])
    assert [str(tmp_path / "latency.json"), str(tmp_path / "memory.json")] == [each[-1] for each in asked]
    assert all("--quick" in each for each in asked)
    assert "not measured: latency" in capsys.readouterr().err
