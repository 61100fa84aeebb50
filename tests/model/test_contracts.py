"""What plugins implement can be checked when they are loaded."""

from __future__ import annotations

from collections.abc import Sequence

from framework.model.contracts import AllocationStrategy
from framework.model.queue import MessageQueue


class Whole:
    name = "whole"

    def allocate(self, member: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        return list(queues) if member == members[0] else []


def test_a_strategy_is_known_by_its_shape() -> None:
    assert isinstance(Whole(), AllocationStrategy)
    assert not isinstance("averaging", AllocationStrategy)
