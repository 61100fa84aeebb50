"""Invariant: when a member has left cleanly, its queues have another owner within two seconds."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.facts import Fact, Fault, Life, Reassigned, Subscribed
from tests.simulation.history import History

NAME = "covered in time"
COVER_S, NEW_S = 2.0, 5.0


def covered_in_time(history: History) -> Iterator[Violation]:
    """A leaver's queues have new owners in time, in calm runs, of one who leaves while nobody else comes or goes,
    counted from its end. Whoever is there must have been so for a while: a newcomer looks around before it takes its
    share. And all of them must consume the topic: of one that some have left, the shares of those are nobody's.

    Members with names keep the leaver's seat instead; broadcasting groups divide nothing.
    """
    if not history.is_calm:
        return
    if history.grace_s:
        excuse(history, NAME, "members with names keep the leaver's seat")
        return
    shares = _Shares(history)
    for fact in history.facts:
        yield from shares.overdue(fact.at)
        if isinstance(fact, Fault) and fact.kind == "healed":
            return  # from here on all leave, one after the other, and nobody is left
        shares.hear(fact)


class _Shares:
    """Who was given which queue, and which have been nobody's since when."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._owners: dict[tuple[str, str], set[str]] = {}
        self._waiting: dict[tuple[str, str], tuple[str, float, bool]] = {}
        """Since whose end, when that was, and whether those who were there can be asked to have covered it."""
        self._there: dict[str, float] = {}
        """Who is up and stays, since when."""
        self._without: set[tuple[str, str, str]] = set()
        """Who does not consume which topic of which group any more."""

    def overdue(self, now: float) -> Iterator[Violation]:
        for (group, queue), (who, at, is_asked) in sorted(self._waiting.items()):
            if now > at + COVER_S and not is_asked:
                excuse(self._history, NAME, "somebody had only just come")
                del self._waiting[group, queue]
            elif now > at + COVER_S:
                yield Violation(NAME, f"{queue} of {group} was nobody's 2s after {who} had left", at)
                del self._waiting[group, queue]

    def hear(self, fact: Fact) -> None:
        match fact:
            case Reassigned() if fact.group not in self._history.broadcasting:
                for queue in fact.lost:
                    self._owners.get((fact.group, queue), set()).discard(fact.who)
                for queue in fact.gained:
                    self._owners.setdefault((fact.group, queue), set()).add(fact.who)
                    self._waiting.pop((fact.group, queue), None)
            case Subscribed():
                change = self._without.discard if fact.is_on else self._without.add
                change((fact.who, fact.group, fact.topic))
                self._waiting.clear()
                for (group, queue), owners in self._owners.items():
                    if group == fact.group and queue.startswith(f"{fact.topic}@"):
                        owners.discard(fact.who)
            case Life():
                self._waiting.clear()
                self._there.pop(fact.who, None)
                if fact.event == "left":
                    self._left(fact.who, fact.at)
                elif fact.event == "started" and fact.who.startswith("app-"):
                    self._there[fact.who] = fact.at
            case _:
                pass

    def _left(self, who: str, at: float) -> None:
        is_asked = bool(self._there) and max(self._there.values()) < at - NEW_S
        for key, owners in self._owners.items():
            if who in owners:
                owners.discard(who)
                if not self._there or any(
                    (each, key[0], key[1].partition("@")[0]) in self._without for each in self._there
                ):
                    continue
                if not owners and self._history.allotted.get(key[0], {}).get(key[1]) is None:
                    self._waiting[key] = (who, at, is_asked)
