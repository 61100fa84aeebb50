"""The plot of the producers' figures has a pair of bars for each result, as `produce --json` wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.produce_plot import DRAWN, UNREADABLE, main
from benchmarks.report import Run, medians

SVG = "{http://www.w3.org/2000/svg}"


def run(who: str, rate: float, cpu_us: float) -> Run:
    return Run(who=who, rate=rate, cpu_per_message_us=cpu_us, peak_memory_mb=40.0, load=1.0)


def result(folder: Path, mode: str, *runs: Run) -> str:
    path = folder / f"{mode}.json"
    path.write_text(json.dumps({"settings": {"mode": mode, "body": 1_024}, "medians": medians(runs)}))
    return str(path)


def test_each_result_has_bars_as_long_as_its_medians(tmp_path: Path) -> None:
    first = result(tmp_path, "batch", run("ours", 900.0, 4.0), run("ours", 1_000.0, 4.0), run("java", 500.0, 8.0))
    second = result(tmp_path, "one-way", run("ours", 250.0, 2.0))
    assert DRAWN == main([str(tmp_path / "p.svg"), first, second])
    picture = ET.fromstring((tmp_path / "p.svg").read_text())

    widths = [float(bar.attrib["width"]) for bar in picture.iter(f"{SVG}rect")]
    fills = [bar.attrib["fill"] for bar in picture.iter(f"{SVG}rect")]
    rates, times = widths[:3], widths[3:]
    assert [round(950 / 950, 2), round(500 / 950, 2), round(250 / 950, 2)] == [round(w / rates[0], 2) for w in rates]
    assert [0.5, 1.0, 0.25] == [round(width / times[1], 2) for width in times]
    assert fills[0] == fills[2] != fills[1], "ours stand out"
    texts = {text.text for text in picture.iter(f"{SVG}text")}
    assert {"batch, 1,024 B, this framework", "batch, 1,024 B, Java", "one-way, 1,024 B, this framework"} <= texts


def test_what_is_no_result_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "odd.json").write_text("[]")

    assert UNREADABLE == main([str(tmp_path / "p.svg"), str(tmp_path / "odd.json")])
    assert "no result of benchmarks.produce" in capsys.readouterr().err
    assert not (tmp_path / "p.svg").exists()
