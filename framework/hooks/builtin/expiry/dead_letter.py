"""`dead_letter`: send the message to the dead-letter queue at once. For work that must not be started twice."""

from __future__ import annotations

from framework.hooks.markers import hookimpl
from framework.model.contracts import ExpiryPolicy
from framework.model.delivery import Delivery
from framework.model.outcome import DeadLetter


class DeadLetterPolicy:
    name = "dead_letter"

    def decide(self, delivery: Delivery, age_ms: int) -> DeadLetter:
        return DeadLetter(f"timed out after {age_ms / 1000:.1f} s")


@hookimpl
def register_expiry_policies() -> list[ExpiryPolicy]:
    return [DeadLetterPolicy()]
