"""The checker of limits: silent about a good history, and exact about what is wrong with a bad one."""

from __future__ import annotations

from dataclasses import replace

from framework.model.queue import MessageQueue
from tests.simulation.checkers import expired_in_time
from tests.simulation.facts import Fact, Fault, Finished, Started
from tests.simulation.history import History

QUEUE = MessageQueue("orders", "broker-a", 0)
A = "app-1.1"


def broken(*facts: Fact, limit: float | None = 3.0) -> list[str]:
    limits = {} if limit is None else {"billing": limit}
    return [str(each) for each in expired_in_time(History(0, facts=list(facts), groups=["billing"], limits=limits))]


def ran(begin: float, end: float, outcome: str = "ok") -> tuple[Fact, Fact]:
    return (
        Started(begin, A, "billing", "m5", QUEUE, 5, 1),
        Finished(end, A, "billing", "m5", QUEUE, 5, 1, outcome),
    )


def test_quick_handlers_and_those_that_end_at_the_limit_are_well() -> None:
    assert [] == broken(*ran(1.0, 1.1), *ran(2.0, 5.0, "expired"), *ran(6.0, 9.09, "expired"))
    assert [] == broken(*ran(1.0, 90.0), limit=None)


def test_one_that_was_given_up_too_soon_is_named() -> None:
    (said,) = broken(*ran(1.0, 3.9, "expired"))
    assert "app-1.1: 5 of orders@broker-a:0 for billing was given up after 2.900 s of 3" in said


def test_one_that_ran_on_is_named_unless_its_process_stood_still() -> None:
    assert 1 == len(broken(*ran(1.0, 4.2, "expired")))
    assert 1 == len(broken(*ran(1.0, 4.2)))
    assert [] == broken(Fault(0.5, A, "stop"), *ran(1.0, 9.0, "expired"))


def test_of_two_runs_of_a_message_each_has_its_own_time() -> None:
    """Its queue was moved back while the first one ran."""
    (first, ended), (again, given_up) = ran(1.0, 3.5), ran(2.0, 5.0, "expired")
    assert isinstance(ended, Finished)
    assert isinstance(given_up, Finished)
    assert [] == broken(first, again, replace(ended, since=1.0), replace(given_up, since=2.0))
    assert 1 == len(broken(first, again, replace(ended, since=2.0), replace(given_up, since=1.0)))
