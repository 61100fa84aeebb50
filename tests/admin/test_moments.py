"""Where to begin in a topic, as people write it."""

from __future__ import annotations

import pytest

from framework.admin.moments import Moment, moment

NOW_MS = 1_795_341_600_000  # 2026-11-22T10:00:00Z


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("earliest", "earliest", 0),
        (" latest", "latest", 0),
        ("47", "offset", 47),
        ("0", "offset", 0),
        ("-20", "last", 20),
        ("-2h", "time", NOW_MS - 7_200_000),
        ("@-48h", "time", NOW_MS - 172_800_000),
        ("2026-11-22T10:00:00Z", "time", NOW_MS),
        ("@2026-11-22T10:00:00", "time", NOW_MS),
        ("2026-11-22T11:00:00.5+01:00", "time", NOW_MS + 500),
        ("2026-11-22", "time", NOW_MS - 36_000_000),
    ],
)
def test_each_form_is_read(text: str, kind: str, value: int) -> None:
    found = moment(text, NOW_MS)

    assert (kind, value) == (found.kind, found.value)
    assert text.strip() == str(found)


@pytest.mark.parametrize("text", ["", "yesterday", "-", "-2 hours of it", "@5", "5.5", "2026-13-01", "+3"])
def test_others_are_named_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(ValueError, match="is no place in a topic; write earliest, latest, -20"):
        moment(text, NOW_MS)


def test_one_that_nobody_wrote_is_named_by_its_kind() -> None:
    assert "earliest" == str(Moment("earliest"))


def test_a_number_that_no_broker_has_is_refused() -> None:
    for text in ("9" * 20, "-" + "9" * 20):
        with pytest.raises(ValueError, match="is too large a number; brokers know offsets below"):
            moment(text, 0)
