"""Damage at rest: never a wrong body, but an error that names what is damaged.

The full figures (`make slow PART=flips`) are 10,000 flipped bits and 1,000 lost ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.errors import RecordDamaged
from tests.broker.flips import damage_often
from tests.broker.store_lab import folder_lab

WRONG = ("wrong", "silent", "wrong offset", "wrong by tag", "silent by tag")


# 1: the last message's key says another queue. 9 and 30: a row's columns are shifted, its place is below 0, and its tag
# has no check.
@pytest.mark.long
@pytest.mark.parametrize("seed", [1, pytest.param(3, marks=pytest.mark.slow), 9, 30])
def test_a_flipped_bit_never_makes_a_wrong_body(folder: Path, seed: int) -> None:
    """Nor a wrong offset, nor a message less, also for who wants its tag."""
    counts = damage_often(folder, seed=seed, times=1000)

    assert not any(counts[what] for what in WRONG), counts
    assert counts["named"] > 300
    assert counts["rows read"] > 75_000, "of a hundred thousand: what is whole is still served"


def test_a_lost_end_never_makes_a_wrong_body(folder: Path) -> None:
    counts = damage_often(folder, seed=2, times=50, is_cut=True)

    assert not any(counts[what] for what in WRONG), counts


def test_the_error_names_the_message(tmp_path: Path) -> None:
    lab = folder_lab(tmp_path)
    for i in range(3):
        lab.write("t", 1, b"text %d" % i)
    lab.database.writing.execute("UPDATE messages SET checksum = checksum + 1 WHERE id & 1099511627775 = 1")

    assert [b"text 0"] == lab.texts("t", 1)
    with pytest.raises(RecordDamaged, match=r"message 1 of t@broker-a:1 is damaged"):
        lab.texts("t", 1, 1)
    assert [b"text 2"] == lab.texts("t", 1, 2)
    lab.store.close()


@pytest.fixture
def figures() -> Iterator[Counter[str]]:
    counts: Counter[str] = Counter()
    yield counts
    print(dict(counts))


@pytest.mark.slow
@pytest.mark.timeout(590)
@pytest.mark.parametrize("part", range(5))
def test_ten_thousand_flips(part: int, folder: Path, figures: Counter[str]) -> None:
    figures.update(damage_often(folder, seed=1000 + part, times=2000))

    assert not any(figures[what] for what in WRONG)


@pytest.mark.slow
@pytest.mark.timeout(590)
def test_a_thousand_lost_ends(folder: Path, figures: Counter[str]) -> None:
    figures.update(damage_often(folder, seed=2000, times=1000, is_cut=True))

    assert not any(figures[what] for what in WRONG)
