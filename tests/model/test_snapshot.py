"""Snapshot: a picture is a value, and stays as it was taken."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, asdict

import pytest

from framework.model.queue import MessageQueue
from framework.model.snapshot import GroupSnapshot, QueueSnapshot, Snapshot

QUEUE = QueueSnapshot(
    queue="orders@broker-a:3", state="held", reason="span", committable=10, next_offset=2_100, max_offset=9_000,
    messages=40, bytes=4_000, running=1, place=MessageQueue("orders", "broker-a", 3),
)  # fmt: skip
GROUP = GroupSnapshot(
    group="billing", topics=("orders",), queues=(QUEUE,), handled=10, retried=0, dead_lettered=0, dropped=0, late=0,
    is_balanced=True,
)  # fmt: skip
PICTURE = Snapshot(name="app", member="me@1", is_ready=True, groups=(GROUP,), budget_used=4_000, budget_limit=64_000)


def test_a_picture_cannot_be_painted_over() -> None:
    for part, name in ((PICTURE, "is_ready"), (GROUP, "handled"), (QUEUE, "state")):
        with pytest.raises(FrozenInstanceError):
            setattr(part, name, 0)


def test_a_picture_can_be_shown_as_plain_values() -> None:
    """Whoever prints it as JSON needs no code of its own."""
    plain = asdict(PICTURE)

    assert "span" == plain["groups"][0]["queues"][0]["reason"]
    assert {"name", "member", "is_ready", "groups", "budget_used", "budget_limit"} <= set(plain)
