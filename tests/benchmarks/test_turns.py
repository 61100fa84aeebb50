"""The harness: sides take turns, medians are of each case and side, and files say what the machine did meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import turns
from benchmarks.machine import Busy
from benchmarks.turns import Sample, in_turns, medians, table, write_json


def sample(who: str, case: str, rate: float, load: float = 1.0, stolen: float = 0.0) -> Sample:
    return Sample(who=who, case=case, figures={"rate": rate}, busy=Busy(load, stolen))


def test_sides_take_turns_in_each_case() -> None:
    asked: list[tuple[str, str, int]] = []

    def measure(case: str, who: str, number: int) -> dict[str, float] | None:
        asked.append((case, who, number))
        return None if (case, who) == ("groups", "java") else {"rate": float(number)}

    found = in_turns(["queues", "groups"], ["java", "ours"], 2, measure)

    each = [("queues", "java"), ("queues", "ours"), ("groups", "java"), ("groups", "ours")]
    assert [(*pair, number) for number in (1, 2) for pair in each] == asked
    assert 6 == len(found)


def test_medians_are_of_each_case_and_side_with_the_loads_beside() -> None:
    found = medians(
        [sample("ours", "8", 3, 1.5), sample("ours", "8", 9, 4, 0.1), sample("ours", "8", 5), sample("java", "8", 2)]
    )

    assert ["ours", "java"] == [row["who"] for row in found]
    assert (3, 5, [1.0, 4], [0.0, 0.1]) == tuple(found[0][name] for name in ("runs", "rate", "load", "stolen"))


def test_the_file_says_what_was_measured_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "host", lambda: {"cpus": 2})
    write_json(tmp_path / "out.json", "growth", [sample("ours", "8", 3)], {"runs": 1, "json": tmp_path / "out.json"})

    content = json.loads((tmp_path / "out.json").read_text())
    assert (1, "growth", {"cpus": 2}, {"runs": 1}) == tuple(
        content[name] for name in ("schema", "benchmark", "host", "settings")
    )
    assert [{"who": "ours", "case": "8", "rate": 3, "load": 1.0, "stolen": 0.0}] == content["runs"]
    assert content["commit"]
    assert str(tmp_path) not in json.dumps(content), "no path of this machine"


def test_the_table_has_a_line_for_each_case_and_side() -> None:
    lines = table([sample("ours", "8", 3, 1.5, 0.05), sample("java", "8", 9)]).splitlines()

    assert 2 == len(lines)
    assert "load 1.5 to 1.5, stolen up to 5%, 1 runs" in lines[0]
