"""What becomes of bodies that cannot be read, one by one and many in a row."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from framework.core.results import Result
from framework.errors import BodyUnavailable, BodyUndecodable
from framework.model.outcome import DeadLetter, Drop, Outcome, RetryLater
from framework.services.call.undecodable import Policy, Undecodable
from tests.services.parts import messages_from

(MESSAGE,) = messages_from(7, 1)
ERROR = BodyUndecodable("not a Order: cents: Field required")


@pytest.mark.parametrize(
    ("policy", "outcome"),
    [
        ("dead_letter", DeadLetter(str(ERROR))),
        ("retry", RetryLater(reason=str(ERROR))),
        ("drop", Drop("undecodable", str(ERROR))),
    ],
)
def test_the_setting_says_what_becomes_of_it(policy: Policy, outcome: Outcome) -> None:
    with capture_logs() as lines:
        result = Undecodable("billing", policy, 100).judged(MESSAGE, ERROR)

    assert isinstance(result, Result)
    assert (outcome, "exception", None) == (result.outcome, result.kind, result.error)
    (line,) = lines
    assert ("body undecodable", "billing", 7, str(ERROR), policy, 1) == (
        line["event"], line["group"], line["offset"], line["reason"], line["then"], line["in_a_row"],
    )  # fmt: skip


def test_hold_holds_at_the_first_one() -> None:
    result = Undecodable("billing", "hold", 100).judged(MESSAGE, ERROR)

    assert isinstance(result, BodyUnavailable)
    assert f"{ERROR}; fix the handler, or change consumers.billing.undecodable" == str(result)


def test_many_in_a_row_hold_and_one_that_can_be_read_ends_the_row() -> None:
    undecodable = Undecodable("billing", "dead_letter", 3)

    for _ in range(3):
        assert isinstance(undecodable.judged(MESSAGE, ERROR), Result)
    with capture_logs() as lines:
        held = undecodable.judged(MESSAGE, ERROR)
    assert "3 bodies in a row could not be decoded, now: not a Order" in str(held)
    assert "raise consumers.billing.undecodable_max" in str(held)
    assert isinstance(held, BodyUnavailable)
    assert [] == lines, "the queue that is held says so, once"

    undecodable.row = 0
    assert isinstance(undecodable.judged(MESSAGE, ERROR), Result)


def test_without_a_limit_no_row_is_too_long() -> None:
    undecodable = Undecodable("billing", "drop", 0)

    assert all(isinstance(undecodable.judged(MESSAGE, ERROR), Result) for _ in range(300))
    assert "<Undecodable billing: drop, 300 in a row>" == repr(undecodable)
