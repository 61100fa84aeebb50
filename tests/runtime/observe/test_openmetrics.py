"""Metrics as text: what others named injects nothing, labels are bounded, and processes are merged."""

from __future__ import annotations

import re
from dataclasses import asdict

import pytest

from framework.core.statistics import BOUNDS_S, EXAMPLE_SECONDS, Histogram, Rates
from framework.model.snapshot import ExampleSnapshot
from framework.runtime.observe.openmetrics import LABEL_MAX, SERIES_MAX, Family, Sample, Times, text_of
from tests.runtime.observe.asking import series

HOSTILE = [
    'a"} 1\nevil_total{x="',
    "a\\",
    "a\nevil_total 1",
    "a\r\n# EOF",
    "\x1b[31mred",
    "\u202eright to left",
    "\u2028evil_total 1",
    "a" * 10_000,
    "\x00",
    "ünïcode",
]
LINE = re.compile(
    r'[a-z_:]+(\{([a-z_]+="([^"\\\n]|\\["\\n])*",?)+\})? -?[0-9.e+-]+'
    r'( # \{[a-z_]+="([^"\\\n]|\\["\\n])*"\} [0-9.e+-]+ [0-9.]+)?'
)


def lines(family: Family) -> list[str]:
    text = text_of([family])
    assert text.endswith("# EOF\n")
    assert 1 == text.count("\n# EOF")
    return [line for line in text.split("\n")[:-2] if not line.startswith("# ")]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_from_elsewhere_stays_in_its_label(name: str) -> None:
    family = Family("framework_app_x", "gauge", "Help.")
    family.add(Sample((("plugin", name),), 1))

    (line,) = lines(family)
    assert LINE.fullmatch(line), line
    assert line.isprintable()
    assert len(line) <= 2 * LABEL_MAX + 40


def test_names_that_look_alike_once_they_are_cleaned_are_one_series() -> None:
    """A scraper refuses two of the same name, or drops one and says nothing."""
    counts, times = Family("framework_app_x", "counter", "Help."), Family("framework_app_y", "histogram", "Help.")
    picture = Histogram().picture()
    for name in ("a" * LABEL_MAX + "1", "a" * LABEL_MAX + "2", "red\x00", "red\x1b"):
        counts.add(Sample((("plugin", name),), 1))
        times.add(Times((("plugin", name),), picture.bounds, picture.counts, 0.5))

    found = series(text_of([counts, times]))
    assert [2, 2] == [value for name, value in found.items() if "_x_total" in name]
    assert [1, 1] == [value for name, value in found.items() if "_y_sum" in name]


@pytest.mark.parametrize("name", HOSTILE)
def test_an_example_from_elsewhere_stays_in_its_place(name: str) -> None:
    times = Histogram()
    times.show(times.add(0.2), ExampleSnapshot("", name, 0.2, 1_700_000_000_123))
    picture = asdict(times.picture())
    family = Family("messaging_process_duration_seconds", "histogram", "Help.")
    family.add(Times((("topic", name),), picture["bounds"], picture["counts"], picture["total"], picture["examples"]))

    found = lines(family)
    assert len(BOUNDS_S) + 3 == len(found)
    assert 1 == sum(" # {message_id=" in line for line in found)
    for line in found:
        assert LINE.fullmatch(line), line
        assert line.isprintable()


def test_beyond_a_thousand_series_the_rest_is_other() -> None:
    family = Family("framework_app_x", "counter", "Help.")
    for number in range(SERIES_MAX + 500):
        family.add(Sample((("topic", f"topic-{number}"),), 1))

    found = series(text_of([family]))
    assert SERIES_MAX + 1 == len(found)
    assert 500 == found['framework_app_x_total{topic="other"}']
    assert SERIES_MAX + 500 == sum(found.values())


def test_of_several_processes_counts_are_added_and_readiness_is_the_worst() -> None:
    counts, ready = Family("framework_app_x", "counter", "Help."), Family("framework_app_ready", "gauge", "Help.", min)
    for value in (3, 4):
        counts.add(Sample((), value))
    for value in (1, 0, 1):
        ready.add(Sample((), value))

    assert {"framework_app_x_total": 7, "framework_app_ready": 0} == series(text_of([counts, ready]))


def test_times_of_several_processes_are_added_class_by_class() -> None:
    family = Family("messaging_process_duration_seconds", "histogram", "Help.")
    for seconds in (0.003, 0.2, 1000.0):
        times = Histogram()
        times.add(seconds, 2)
        picture = times.picture()
        family.add(Times((), picture.bounds, picture.counts, picture.total))

    found = series(text_of([family]))
    assert 2 == found['messaging_process_duration_seconds_bucket{le="0.005"}']
    assert 4 == found['messaging_process_duration_seconds_bucket{le="0.25"}']
    assert 4 == found['messaging_process_duration_seconds_bucket{le="900"}']
    assert (
        6
        == found['messaging_process_duration_seconds_bucket{le="+Inf"}']
        == found["messaging_process_duration_seconds_count"]
    )
    assert round(2 * 1000.203, 3) == round(found["messaging_process_duration_seconds_sum"], 3)


def test_an_example_stays_for_as_long_as_a_scraper_needs_to_see_it() -> None:
    times = Histogram()
    place = times.add(0.2)
    assert times.wants_example(place, 1000)
    times.show(place, ExampleSnapshot("", "id", 0.2, 1000))

    assert not times.wants_example(place, 1000 + int(EXAMPLE_SECONDS * 1000) - 1)
    assert times.wants_example(place, 1000 + int(EXAMPLE_SECONDS * 1000))
    assert times.wants_example(place + 1, 1000)


def test_messages_count_with_the_mean_of_their_span_and_failures_with_the_next_one() -> None:
    """Their time is their chunk's; counted for themselves they would be free."""
    rates = Rates(0, Histogram())
    rates.failed(1)
    rates.handled(1, 1, 0.0)  # settled later than its chunk was left
    rates.handled(1, 2, 400.0)
    assert rates.times is not None
    picture = rates.times.picture()

    assert 4 == sum(picture.counts)
    assert 4 == picture.counts[BOUNDS_S.index(0.1)]
    assert 0.4 == round(picture.total, 6)


def test_without_a_listener_no_times_are_kept() -> None:
    assert Rates(0).handled(1, 2, 400.0) is None
    assert Rates(0).times is None
