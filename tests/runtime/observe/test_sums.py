"""What several processes count while one ends, is replaced, or says nothing: a sum never falls."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from framework.core.statistics import Histogram
from framework.model.snapshot import GroupSnapshot, Snapshot
from framework.runtime.observe.metrics import families
from framework.runtime.observe.openmetrics import SERIES_MAX, Sample, text_of
from framework.runtime.observe.sums import Sums
from tests.runtime.observe.asking import series

STARTING = {"error": "it has ended, and is started again", "is_starting": True}
BLOCKED = {"error": "the event loop has not answered for 42 s: blocked at wait(orders.py:17)", "is_blocked": True}
GROUP = GroupSnapshot("billing", ("orders",), (), 0, 0, 0, 0, 0, is_balanced=True, own_name="billing")
HANDLED = 'framework_app_messages_total{consumer_group="billing",outcome="handled"}'
TIMED = 'messaging_process_duration_seconds_count{consumer_group="billing",topic="orders"}'


def worker(number: int, session: str, *handled: int) -> dict[str, Any]:
    """A process with a group for each count; without a count, with none."""
    groups = []
    for count in handled:
        times = Histogram()
        times.add(0.2, count)
        groups.append(replace(GROUP, handled=count, times={"orders": times.picture()}))
    picture = Snapshot(
        "shop", "member", is_ready=True, groups=tuple(groups), budget_used=0, budget_limit=0, session=session
    )
    return {"worker": number, "snapshot": asdict(picture)}


def look(sums: Sums, *workers: dict[str, Any]) -> dict[str, float]:
    return series(text_of(families(workers, "1", sums=sums)))


def test_a_sum_never_falls_when_a_process_is_replaced_or_says_nothing_or_a_group_begins_anew() -> None:
    """A scraper would take the fall for a new beginning of all, and count the other processes once more."""
    sums = Sums()
    looks: list[tuple[int, list[dict[str, Any]]]] = [
        (7, [worker(0, "a", 5), worker(1, "b", 2)]),
        (7, [{"worker": 0, **STARTING}, worker(1, "b", 2)]),
        (8, [worker(0, "c", 1), worker(1, "b", 2)]),
        (14, [worker(0, "d", 6), {"worker": 1, **BLOCKED}]),  # "c" ended unseen, and "d" is further than it was
        (15, [worker(0, "d", 6), worker(1, "b", 3)]),
        (15, [worker(0, "d"), worker(1, "b", 3)]),
        (17, [worker(0, "d", 2), worker(1, "b", 3)]),
        (17, [worker(0, "d", 2)]),
    ]

    for count, workers in looks:
        found = look(sums, *workers)
        assert (count, count) == (found[HANDLED], found[TIMED]), workers


def test_each_process_alone_goes_on_counting_when_it_is_replaced() -> None:
    sums = Sums()
    for session, handled in (("a", 5), ("b", 1)):
        found = series(text_of(families([worker(3, session, handled)], "1", by_worker=True, sums=sums)))

    assert 6 == found['framework_app_messages_total{consumer_group="billing",outcome="handled",worker="3"}']


def test_a_process_that_says_nothing_is_not_ready_and_lives_only_while_it_starts() -> None:
    starting = look(Sums(), worker(0, "a", 5), {"worker": 1, **STARTING})
    blocked = look(Sums(), worker(0, "a", 5), {"worker": 1, **BLOCKED})
    alone = look(Sums(), {"worker": 0, **BLOCKED})

    names = ("framework_app_ready", "framework_app_live", "framework_app_not_ready_reasons")
    assert [0, 1, 1] == [starting[name] for name in names]
    assert [0, 0, 1] == [blocked[name] for name in names]
    assert [0, 0, 1] == [alone[name] for name in names]


def test_so_many_series_are_kept_and_others_are_shown_as_they_are() -> None:
    sums = Sums()
    kept = [sums.keep("x", 0, Sample((("figure", str(number)),), 1)) for number in range(SERIES_MAX + 1)]

    assert [True] * SERIES_MAX + [False] == kept
    assert SERIES_MAX == len(list(sums.of("x")))
