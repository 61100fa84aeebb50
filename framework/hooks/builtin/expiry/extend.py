"""`extend`: let the handler run on, and log that once per further timeout."""

from __future__ import annotations

from framework.hooks.markers import hookimpl
from framework.model.contracts import ExpiryPolicy
from framework.model.delivery import Delivery
from framework.model.outcome import Extend


class ExtendPolicy:
    name = "extend"

    def decide(self, delivery: Delivery, age_ms: int) -> Extend:
        return Extend()


@hookimpl
def register_expiry_policies() -> list[ExpiryPolicy]:
    return [ExtendPolicy()]
