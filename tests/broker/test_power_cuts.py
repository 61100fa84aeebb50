"""What was acknowledged survives a power cut at any moment; and this would be noticed if it did not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.power import cut_often
from tests.simulation.left_out import left_out

PARTS = 10


def test_no_power_cut_loses_what_was_acknowledged(folder: Path) -> None:
    figures = cut_often(folder, seed=1, cuts=300)

    assert figures["told"] > 300
    assert (0, 0, 0) == (figures["lost"], figures["torn"], figures["unreadable"]), figures


@pytest.mark.parametrize("safeguard", ["a commit reaches the disk", "an answer leaves after the commit"])
def test_a_store_without_its_safeguard_is_found_out(safeguard: str, folder: Path) -> None:
    with left_out(safeguard):
        figures = cut_often(folder, seed=2, cuts=60)

    assert figures["lost"] > 0


@pytest.mark.slow
@pytest.mark.timeout(590)
@pytest.mark.parametrize("part", range(PARTS))
def test_ten_thousand_power_cuts(part: int, folder: Path) -> None:
    figures = cut_often(folder, seed=1000 + part, cuts=1000, groups=32)
    print(f"power cuts, part {part}: {figures}")

    assert figures["cuts"] > figures["moments"], "every moment at least once"
    assert (0, 0, 0) == (figures["lost"], figures["torn"], figures["unreadable"]), figures
