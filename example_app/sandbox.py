"""Sandbox: a plugin of this application that keeps testers' orders away from the handlers.

Whoever tries something out in production marks an order with the property `sandbox`. It is settled unhandled, under
this plugin's name, and shows as dropped.
"""

from __future__ import annotations

from framework import Delivery
from framework.hooks import Skip, hookimpl

PROPERTY = "sandbox"


@hookimpl
def before_consume(delivery: Delivery) -> Skip | None:
    return Skip("a tester's order") if PROPERTY in delivery.message.properties else None
