"""The second of three plugins, each with a hook before and a hook after every delivery."""

from __future__ import annotations

from framework import Delivery
from framework.hooks import hookimpl
from framework.model.outcome import Outcome

seen = [0, 0]


@hookimpl
def before_consume(delivery: Delivery) -> None:
    seen[0] += 1


@hookimpl
def after_consume(delivery: Delivery, outcome: Outcome, elapsed_ms: float) -> None:
    seen[1] += 1
