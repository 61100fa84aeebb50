"""What a base draws, and the list of those that are no mistake."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.mutation import drawing
from tests.mutation.drawing import NAMES, ROOT, draw, equivalents, files_of, room_of, strangers

pytestmark = pytest.mark.xdist_group("mutants")  # which are drawn from sources that are read once a process


def test_every_file_of_a_room_has_one_room() -> None:
    files = [file for room in drawing.ROOMS for file in files_of(room)]

    assert len(files) == len(set(files))
    assert "broker/store" == room_of("framework/broker/store/log.py").name
    assert "broker" == room_of("framework/broker/holds.py").name
    assert all((ROOT / folder).is_dir() for room in drawing.ROOMS for folder in (*room.folders, *room.tests))


def test_a_base_draws_the_same_and_more_begin_with_them() -> None:
    few, many = draw(30, 5), draw(60, 5)

    assert few == many[:30]
    assert few != draw(30, 6)
    assert len({mutant.key for mutant in many}) == 60


def test_a_draw_is_spread_over_rooms_and_operators() -> None:
    mutants = draw(200, 7)
    rooms = Counter(room_of(mutant.file).name for mutant in mutants)

    assert set(NAMES) == set(rooms)
    assert max(rooms.values()) < 60
    assert len({mutant.operator for mutant in mutants}) > 10


def test_one_room_alone() -> None:
    assert {"net"} == {room_of(mutant.file).name for mutant in draw(10, 1, rooms=["net"])}


def test_what_is_known_to_be_no_mistake_is_still_offered_by_the_source() -> None:
    """Whoever changes such a line judges it anew."""
    assert [] == strangers(equivalents())


def test_each_judgement_says_why() -> None:
    assert all(len(why.split()) >= 5 for why in equivalents().values())


def test_a_judgement_without_a_place_is_a_stranger(tmp_path: Path) -> None:
    (tmp_path / "framework/core").mkdir(parents=True)
    (tmp_path / "framework/core/a.py").write_text("def work():\n    tell()\n")
    there = "framework/core/a.py::work: statement left out: tell() -> pass"
    gone, no_file = there.replace("tell", "told"), there.replace("a.py", "b.py")

    assert [gone, no_file] == strangers([there, gone, no_file], tmp_path)


def test_a_judgement_is_one_mutant(tmp_path: Path) -> None:
    listed = tmp_path / "equivalent.toml"
    listed.write_text('[[equivalent]]\nmutant = "a"\nwhy = "b"\n[[equivalent]]\nmutant = "a"\nwhy = "c"\n')

    with pytest.raises(AssertionError, match="twice"):
        equivalents(listed)
