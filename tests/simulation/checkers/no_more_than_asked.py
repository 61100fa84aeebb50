"""Invariant: a paused group starts nothing; a group that was made smaller starts nothing while more handlers run."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.facts import Finished, Resized, Started
from tests.simulation.history import History

NAME = "no more than asked"
LATE_S = 4.0
"""How late a thread may begin with what it was given before: worker threads are slow in some runs."""


def no_more_than_asked(history: History) -> Iterator[Violation]:
    """No more handlers at once than were asked for, from the moment on at which a process is told.

    How many are at work is counted where each handler takes one message and ends by itself: not of batches, of lines
    (an orderly group runs one a queue), or where handlers are given up, or are tried again in place beside the
    pool. With `once` a
    message that was begun before waits in its worker for its store, or for another message of its key.
    """
    told: dict[tuple[str, str], Resized] = {}
    at_work: dict[tuple[str, str], int] = {}
    uncounted = history.batched | set(history.once) | set(history.orderly) | set(history.limits) | history.broadcasting
    for fact in history.facts:
        if type(fact) is Resized:
            told[fact.who, fact.group] = fact
        elif type(fact) is Finished:
            at_work[fact.who, fact.group] = at_work.get((fact.who, fact.group), 0) - 1
        elif type(fact) is Started:
            key = (fact.who, fact.group)
            at_work[key] = at_work.get(key, 0) + 1
            asked = told.get(key)
            if asked is None:
                continue
            is_late = fact.group in history.threaded and fact.at <= asked.at + LATE_S
            is_counted = fact.group not in uncounted
            if is_late and (not asked.size or (at_work[key] > asked.size and is_counted)):
                excuse(history, NAME, "a thread began late with what it was given before")
                continue
            if fact.group in history.once:
                if not asked.size:
                    excuse(history, NAME, "a message that was begun before waited for its store, or for one of its key")
                continue
            said = f"{fact.who} started {fact.queue} {fact.offset} for {fact.group}"
            if not asked.size:
                yield Violation(NAME, f"{said}, which is paused", fact.at)
            elif at_work[key] > asked.size and is_counted:
                yield Violation(NAME, f"{said} as the {at_work[key]}th at once, and {asked.size} may", fact.at)
