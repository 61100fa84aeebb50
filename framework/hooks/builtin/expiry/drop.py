"""`drop`: settle the message at once, and count it as dropped. For messages that are worthless once they are late."""

from __future__ import annotations

from framework.hooks.markers import hookimpl
from framework.model.contracts import ExpiryPolicy
from framework.model.delivery import Delivery
from framework.model.outcome import Drop


class DropPolicy:
    name = "drop"

    def decide(self, delivery: Delivery, age_ms: int) -> Drop:
        return Drop("timeout", f"timed out after {age_ms / 1000:.1f} s")


@hookimpl
def register_expiry_policies() -> list[ExpiryPolicy]:
    return [DropPolicy()]
