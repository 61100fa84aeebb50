"""A clean leave is heard of at once: where it is not, the truth about it must notice."""

from __future__ import annotations

from itertools import count, islice

import pytest

from framework.runtime.group.group import ConsumerGroup
from tests.simulation.plans.plan import draw
from tests.simulation.simulation import play

pytestmark = pytest.mark.timeout(600)  # whole clusters; a busy machine takes ten times as long
SECONDS, MOST = 40.0, 10


def test_a_leaver_of_whom_nobody_hears_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the check each five seconds its queues are found in the end, but late."""
    monkeypatch.setattr(ConsumerGroup, "members_changed", lambda group: None)
    calm = (plan for seed in count() if (plan := draw(seed, seconds=SECONDS)).is_calm and not plan.workload.is_named)
    found: set[str] = set()
    for plan in islice(calm, MOST):
        verdict, _ = play(plan)
        found |= {violation.truth for violation in verdict.violations}
        if "covered in time" in found:
            break
    assert "covered in time" in found
