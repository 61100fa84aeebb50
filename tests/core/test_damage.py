"""Damage: nothing but the damaged record is left behind, and only after it came damaged again."""

from __future__ import annotations

from framework.core import limits
from framework.core.queue_flow import Damage
from framework.model.pulled import Damaged


def damaged(offset: int, following: int) -> Damaged:
    return Damaged("its checksum is 0", following, offset + 1, 100)


def test_a_group_that_holds_never_leaves_one_behind() -> None:
    damage = Damage()

    assert [None] * 100 == [damage.skipped_to(5, damaged(5, 37)) for _ in range(100)]
    assert not damage.asks_alone(5)


def test_a_pull_that_came_damaged_is_asked_for_again_record_by_record() -> None:
    damage = Damage(skips=True)

    assert damage.skipped_to(5, damaged(5, 37)) is None
    assert [True, True, False] == [damage.asks_alone(offset) for offset in (5, 36, 37)]


def test_a_record_is_left_behind_when_it_came_damaged_alone_again() -> None:
    damage = Damage(skips=True)
    damage.skipped_to(5, damaged(5, 37))

    tries = [damage.skipped_to(9, damaged(9, 10)) for _ in range(limits.DAMAGED_TRIES)]
    assert [None] * (limits.DAMAGED_TRIES - 1) + [10] == tries
    assert damage.skipped_to(12, damaged(12, 13)) is None, "each record has its own tries"


def test_an_answer_that_names_the_end_of_the_world_is_not_followed_there() -> None:
    damage = Damage(skips=True)
    damage.skipped_to(5, damaged(5, 1 << 50))

    assert not damage.asks_alone(5 + limits.ALONE_MAX)
