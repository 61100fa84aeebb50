"""Invariant: no loop, task or process ends with an unforeseen error; in calm runs, no connection by another's hand."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.facts import Said, Unexpected
from tests.simulation.history import History

NAME = "nothing unexpected"
BY_ITSELF = "closed by this process"


def nothing_unexpected(history: History) -> Iterator[Violation]:
    """Supervision would start most of them again; the error is a mistake of ours all the same.

    A connection that ends is made anew; but what was on its way is sent twice, or its reply is lost. In a calm run no
    broker ends, so one that closes a connection takes somebody for dead who lives.
    """
    for fact in history.of(Unexpected):
        yield Violation(NAME, f"{fact.who}: {fact.what}", fact.at)
    for said in history.of(Said) if history.is_calm else ():
        if said.event == "disconnected" and said.fields["reason"] != BY_ITSELF:
            what = f"{said.who} was disconnected from {said.fields['peer']}: {said.fields['reason']}"
            yield Violation(NAME, what, said.at)
