"""The benchmark of starts: it measures each case, and says which bar is met."""

from __future__ import annotations

from benchmarks.start import Start, measure, table


def start(what: str, cpu_s: float) -> Start:
    return Start(what=what, wall_s=1.0, cpu_s=cpu_s, memory_mb=40.0, load=1.0)


def test_medians_are_held_against_their_bars() -> None:
    lines = table([start("run", cpu) for cpu in (0.1, 0.44, 9.0)] + [start("box", 0.21)]).splitlines()

    assert "run                1.00     0.44     40.0   0.45 s: met" == lines[1]
    assert "box                1.00     0.21     40.0   0.20 s: NOT MET" == lines[2]
    assert "4 starts, load 1.0 to 1.0" == lines[3]


def test_each_case_is_started_and_measured_once_it_is_ready() -> None:
    starts = measure(1, 2)

    assert ["box", "run", "run of 2"] == [start.what for start in starts]
    assert all(start.cpu_s > 0 and start.memory_mb > 10 for start in starts)
    assert starts[2].memory_mb > starts[1].memory_mb + 10, "the children's memory counts, too"
