"""A mutant: what the code is without one safeguard, and what must notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.plans.plan import Plan


@dataclass(frozen=True, slots=True)
class Mutant:
    """One safeguard, what its absence does, and the kinds of fault that bring it to light."""

    safeguard: str
    without: str
    caught_by: tuple[str, ...]
    """Invariants, of which some twenty seeds break one or another; none if seeds seldom see it."""
    test: str = ""
    """Where it is caught by something written instead."""
    where: Callable[[Plan], bool] = field(default=lambda plan: True)
    """The plans under which its absence can show at all: others are not played, however the seeds are drawn."""
