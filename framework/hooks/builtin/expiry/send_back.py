"""`send_back`: settle the message here, and have its broker deliver it again after ten seconds. The default.

Level 3 is what Java's clients send an expired message back with.
"""

from __future__ import annotations

from framework.hooks.markers import hookimpl
from framework.model.contracts import ExpiryPolicy
from framework.model.delivery import Delivery
from framework.model.outcome import RetryLater

DELAY = "10s"  # level 3


class SendBackPolicy:
    name = "send_back"

    def decide(self, delivery: Delivery, age_ms: int) -> RetryLater:
        return RetryLater(DELAY, f"timed out after {age_ms / 1000:.1f} s")


@hookimpl
def register_expiry_policies() -> list[ExpiryPolicy]:
    return [SendBackPolicy()]
