"""NoProgress: two answers that bring nothing on are nothing, more of them are waited for."""

from __future__ import annotations

from framework.core import limits
from framework.core.no_progress import NAMED_AT, NoProgress


def test_each_answer_more_is_waited_for_longer_up_to_a_bound() -> None:
    idle = NoProgress()
    delays = [idle.again(1.0) for _ in range(20)]

    assert [0, 0, 100, 200, 400, 800] == delays[:6]
    assert [limits.IDLE_DELAY_MAX_MS] * 10 == delays[10:]


def test_progress_starts_over() -> None:
    idle = NoProgress()
    for _ in range(NAMED_AT):
        assert not idle.is_named
        idle.again(0.5)

    assert idle.is_named
    idle.ended()
    assert (0, False) == (idle.again(0.5), idle.is_named)
