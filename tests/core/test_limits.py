"""The defaults that documents promise, and how they must stand to each other."""

from __future__ import annotations

from framework.core import limits
from framework.model import delay_levels


def test_sixteen_retries_take_as_long_as_the_documents_say() -> None:
    """17,140 s: levels 3 to 18, one a retry."""
    levels = [delay_levels.FIRST_RETRY_LEVEL + retry for retry in range(limits.MAX_RETRIES)]

    assert delay_levels.LEVEL_MAX == levels[-1]
    assert 17_140_000 == sum(delay_levels.DELAYS_MS[level - 1] for level in levels)


def test_a_long_poll_ends_before_the_client_gives_up_on_it() -> None:
    assert limits.LONG_POLL_MS < limits.PULL_TIMEOUT_MS


def test_members_are_looked_at_more_often_than_balanced() -> None:
    assert limits.REBALANCE_SOON_MS < limits.MEMBER_CHECK_MS < limits.REBALANCE_MS


def test_one_pull_fits_the_bounds_of_a_queue_and_of_the_process() -> None:
    assert limits.PULL_BATCH < limits.CACHED_MESSAGES_MAX <= limits.SPAN_MAX
    assert limits.PULL_BYTES_MAX < limits.CACHED_BYTES_MAX
    assert limits.CACHED_BYTES_MAX < limits.BUDGET_BYTES, "a queue's bound acts before the process's"
