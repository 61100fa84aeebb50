"""What can go wrong with a simulation itself, apart from what the simulated code does.

    SimulationError
    +-- Deadlock      nothing is ready and no timer is set: every task waits forever
    +-- Runaway       more steps than any healthy run takes: something spins
    +-- SimEscape     the code reached for something outside the simulation
    Violation         a promise was broken; an assertion, so that no `except FrameworkError` can swallow it

A violation carries what a reader needs to find it again: which truth, which fact, and when.
"""

from __future__ import annotations

from framework.errors import FrameworkError


class SimulationError(FrameworkError):
    """The simulation cannot go on."""


class Deadlock(SimulationError):
    """Nothing is ready and no timer is set; the text names who waits where."""


class Runaway(SimulationError):
    """The run took more steps than it was allowed."""


class SimEscape(SimulationError):
    """A real socket, thread, signal, process or look-up was asked for; none exists in virtual time."""


class Violation(AssertionError):
    """A checker's verdict: `truth` is the checker's name, `fact` what it saw, `at` the virtual second."""

    def __init__(self, truth: str, fact: str, at: float) -> None:
        super().__init__(f"{truth} at {at:.3f}s: {fact}")
        self.truth = truth
        self.fact = fact
        self.at = at

    def __reduce__(self) -> tuple[type[Violation], tuple[str, str, float]]:
        return (Violation, (self.truth, self.fact, self.at))
