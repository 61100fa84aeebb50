"""Sandbox: a plugin of this application that keeps testers' orders away from the handlers.

A tester in production marks an order with the property `sandbox`. The order is settled without the handler, under this
plugin's name, and counts as dropped.
"""

from __future__ import annotations

from framework import Delivery
from framework.hooks import Skip, hookimpl

PROPERTY = "sandbox"


@hookimpl
def before_consume(delivery: Delivery) -> Skip | None:
    return Skip("a tester's order") if PROPERTY in delivery.message.properties else None
