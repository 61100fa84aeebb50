"""Health: two answers that bring nothing on are nothing, more of them are waited for."""

from __future__ import annotations

from framework.core import limits
from framework.core.backoff import LOGGED_AT, Health


def wait_after_nothing(health: Health) -> int:
    health.brought_nothing("nothing new", 0)
    return health.until_ms


def test_each_answer_more_is_waited_for_longer_up_to_a_bound() -> None:
    health = Health(jitter=1.0)
    delays = [wait_after_nothing(health) for _ in range(20)]

    assert [0, 0, 100, 200, 400, 800] == delays[:6]
    assert [limits.IDLE_DELAY_MAX_MS] * 10 == delays[10:]


def test_progress_starts_over() -> None:
    health = Health(jitter=0.5)
    for _ in range(LOGGED_AT):
        assert health.failure is None
        wait_after_nothing(health)

    assert "nothing new; 4 such answers in a row" == str(health.failure)
    health.got_on()
    assert 0 == wait_after_nothing(health)
    assert health.failure is None
