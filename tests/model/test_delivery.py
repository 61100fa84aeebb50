"""Delivery: one attempt at one message."""

from __future__ import annotations

from framework.model.delivery import Delivery
from framework.model.message import Message


def test_a_deliverys_attempt_is_its_messages() -> None:
    assert 3 == Delivery("billing", Message("orders", attempt=3), 0.0).attempt
