"""How long pulls and handlers took: fed in milliseconds, kept in seconds, as metrics are scraped."""

from __future__ import annotations

import pytest

from framework.core.statistics import BOUNDS_S, EXAMPLE_SECONDS, Histogram, Rates
from framework.model.snapshot import ExampleSnapshot, HistogramSnapshot

BEGIN = 1_000_000_000


def classes(picture: HistogramSnapshot) -> dict[float, int]:
    """Upper bound in seconds -> how many; those without any left out."""
    bounds = (*BOUNDS_S, float("inf"))
    return {bound: count for bound, count in zip(bounds, picture.counts, strict=True) if count}


@pytest.mark.parametrize(
    ("elapsed_ms", "bound"),
    [(3.0, 0.005), (5.0, 0.005), (5.1, 0.01), (300.0, 0.5), (40_000.0, 60.0), (1e6, float("inf"))],
)
def test_a_pull_of_so_many_milliseconds_counts_to_its_class_in_seconds(elapsed_ms: float, bound: float) -> None:
    rates = Rates(BEGIN, Histogram())
    rates.pulled(BEGIN, 7, elapsed_ms)
    assert rates.pulls is not None
    picture = rates.pulls.picture()
    assert {bound: 1} == classes(picture)
    assert elapsed_ms / 1000 == pytest.approx(picture.total)


def test_a_chunk_s_messages_count_by_their_mean_and_with_those_whose_time_comes_with_it() -> None:
    times = Histogram()
    rates = Rates(BEGIN, times)
    rates.failed(BEGIN)
    assert rates.handled(BEGIN, 1, 0.0) is None
    timed = rates.handled(BEGIN, 2, 1_200.0)
    assert (BOUNDS_S.index(0.5), 0.3) == timed, "four messages, 300 ms each"
    assert {0.5: 4} == classes(times.picture())
    assert (BOUNDS_S.index(0.01), 0.008) == rates.handled(BEGIN, 1, 8.0), "nothing of them is counted twice"
    assert {0.5: 4, 0.01: 1} == classes(times.picture())
    assert pytest.approx(1.208) == times.picture().total


def test_an_example_is_kept_for_as_long_as_a_scraper_waits_and_in_its_class_alone() -> None:
    times = Histogram()
    place, other = times.add(0.3), times.add(3.0)
    assert times.wants_example(place, BEGIN)
    times.show(place, ExampleSnapshot(seconds=0.3, at_ms=BEGIN, trace_id="1" * 32, message_id="m"))
    kept_ms = int(EXAMPLE_SECONDS * 1000)
    assert [False, False, True] == [times.wants_example(place, BEGIN + each) for each in (0, kept_ms - 1, kept_ms)]
    assert times.wants_example(other, BEGIN)
