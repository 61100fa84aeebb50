"""Retry: what may be declared, and how a mistake is told."""

from __future__ import annotations

import re
from typing import Any

import pytest

from framework import DeadLetter, Drop, Retry
from framework.errors import ConfigurationError


def test_nothing_said_means_every_exception_and_the_groups_own_numbers() -> None:
    retry = Retry()

    assert ((Exception,), (), None, (), None) == (
        retry.on, retry.give_up_on, retry.max, retry.delays, retry.within_ms,
    )  # fmt: skip
    assert retry.then is DeadLetter


def test_everything_said_is_kept() -> None:
    retry = Retry(
        on=(OSError, KeyError), give_up_on=FileNotFoundError, max=5, delays=["1s", 10], within="1h", then=Drop
    )

    assert (OSError, KeyError) == retry.on
    assert (FileNotFoundError,) == retry.give_up_on
    assert (5, ("1s", 10), 3_600_000) == (retry.max, retry.delays, retry.within_ms)
    assert "<Retry on=OSError|KeyError max=5 delays=['1s', 10] then=Drop>" == repr(retry)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"dealys": []}, "unknown option 'dealys'; did you mean 'delays'?"),
        ({"zzz": 1}, "unknown option 'zzz'; known: on, give_up_on, max"),
        ({"max": -1}, "max=-1: write how many retries, 0 or more"),
        ({"max": True}, "max=True: write how many"),
        ({"max": "5"}, "max='5': write how many"),
        ({"on": "TimeoutError"}, "on='TimeoutError': write an exception's class"),
        ({"give_up_on": KeyboardInterrupt}, "give_up_on=<class 'KeyboardInterrupt'>: write an exception's class"),
        ({"delays": "1s"}, "delays='1s': write a list such as"),
        ({"delays": ["soon"]}, "delays: 'soon' is not a duration"),
        ({"delays": [None]}, "delays: "),
        ({"within": "ever"}, "within: 'ever' is not a duration"),
        ({"then": DeadLetter("x")}, "write DeadLetter or Drop, the class"),
    ],
    ids=str,
)
def test_a_mistake_is_said_where_it_stands(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Retry(**options)

    assert re.match(rf"{re.escape(__file__)}:\d+: Retry: ", str(caught.value))
    assert reason in str(caught.value)


def test_options_go_with_their_names() -> None:
    with pytest.raises(ConfigurationError, match="each option goes with its name"):
        Retry(5)  # type: ignore[call-arg, arg-type]  # which is the mistake
