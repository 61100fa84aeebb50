"""Invariant: a request gets one reply at most, which a handler gave to it; replies that come too late are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.history import History
from tests.simulation.ways.facts import Answered, Gone, LateReplies, Promised, Replied, TookReply

NAME = "replies hold"
ON_ITS_WAY_S = 2.0
"""Within so long a reply reaches whoever asked, in a calm run, also where disks are slow."""


def replies_hold(history: History) -> Iterator[Violation]:
    """docs/transactions.md, "Requests and replies". Each reply that a process took ended a request or is counted."""
    given: dict[str, dict[str, float]] = {}
    until: dict[str, float] = {}
    over: set[str] = set()
    taken, answered = Counter[str](), Counter[str]()
    for fact in history.facts:
        match fact:
            case Promised():
                until[fact.ask] = fact.until
            case Replied():
                given.setdefault(fact.ask, {})[fact.reply] = fact.at
            case TookReply():
                taken[fact.who] += 1
            case Answered():
                answered[fact.who] += 1
                if fact.reply not in given.get(fact.ask, {}):
                    yield Violation(NAME, f"{fact.ask} got {fact.reply!r}, which no handler had given to it", fact.at)
                if fact.ask in over:
                    yield Violation(NAME, f"{fact.ask} got a second end", fact.at)
                over.add(fact.ask)
            case Gone():
                over.add(fact.ask)
                first = min(given.get(fact.ask, {}).values(), default=None)
                if history.is_calm and first is not None and first + ON_ITS_WAY_S < until[fact.ask]:
                    yield Violation(NAME, f"{fact.ask} got no reply, which was given at {first:.3f}", fact.at)
            case LateReplies() if taken[fact.who] > answered[fact.who] + fact.count:
                what = f"{fact.who} took {taken[fact.who]} replies: {answered[fact.who]} ended a request"
                yield Violation(NAME, f"{what}, and {fact.count} are counted as late", fact.at)
            case _:
                pass
