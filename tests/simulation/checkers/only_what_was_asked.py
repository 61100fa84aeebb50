"""Invariant: a group that wants messages with certain tags is given no other ones, and is not held up by them."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.facts import Started
from tests.simulation.history import History

NAME = "only what was asked"


def only_what_was_asked(history: History) -> Iterator[Violation]:
    """Asked of the brokers' own logs, at the end. That what it wants is handled, `nothing lost` says; that commits pass
    the others, a run that is drained.
    """
    if not history.unwanted:
        return
    for fact in history.of(Started):
        if fact.message_id in history.unwanted.get(fact.group, ()):
            what = f"{fact.who} started {fact.queue} {fact.offset} for {fact.group}"
            yield Violation(NAME, f"{what}, which has none of its tags", fact.at)
