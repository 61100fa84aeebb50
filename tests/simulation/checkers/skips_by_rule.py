"""Invariant: a group settles without its handler exactly the messages that its rules name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from framework.model.reserved import RETRY_PREFIX
from framework.testing.errors import Violation
from tests.simulation.facts import Acquired, Skipped, Started
from tests.simulation.history import History

NAME = "skips by rule"
CLOCKS_S = 0.3
"""How far the clocks of brokers and members may be apart: a tenth of a second, and what lies between two looks."""


def skips_by_rule(history: History) -> Iterator[Violation]:
    """`skip_older_than` and `skip_backlog_over`: nothing young and near is skipped, no retry is, what lay there when
    the queue was taken and is too old or too far behind is not started, and what was skipped is counted.
    """
    taken: dict[tuple[str, str, str], Acquired] = {}
    counted: Counter[tuple[str, str]] = Counter()
    for fact in history.facts if history.skips else ():
        match fact:
            case Acquired() if fact.group in history.skips:
                taken[fact.who, fact.group, fact.queue] = fact
            case Skipped():
                counted[fact.who, fact.group] += fact.end - fact.begin
                yield from _skipped(history, fact)
            case Started() if fact.group in history.skips:
                since = taken.get((fact.who, fact.group, str(fact.queue)))
                if since is not None:
                    yield from _started(history, fact, since)
            case _:
                pass
    end = history.facts[-1].at if history.facts else 0.0
    for (who, group), said in sorted(history.skipped.items()):
        if group in history.skips and said != counted[who, group]:
            yield Violation(NAME, f"{who} counts {said} skipped of {group}, and skipped {counted[who, group]}", end)


def _skipped(history: History, fact: Skipped) -> Iterator[Violation]:
    older_s, backlog = history.skips.get(fact.group, (0.0, 0))
    stored_at = history.stored_at.get(fact.queue, {})
    said = f"{fact.who} skipped {{}} of {fact.queue} for {fact.group}"
    if fact.queue.startswith(RETRY_PREFIX):
        yield Violation(NAME, f"{said.format(fact.begin)}, which is a retry", fact.at)
        return
    for offset in range(fact.begin, fact.end):
        is_far = backlog and (fact.queue_end is None or offset < fact.queue_end - backlog)
        is_old = older_s and fact.at - stored_at.get(offset, 0.0) > older_s - CLOCKS_S
        if not is_far and not is_old:
            age = fact.at - stored_at.get(offset, 0.0)
            yield Violation(NAME, f"{said.format(offset)}, {age:.3f}s old, before {fact.queue_end}", fact.at)


def _started(history: History, fact: Started, since: Acquired) -> Iterator[Violation]:
    """What the first pull after that was to cut off."""
    older_s, backlog = history.skips[fact.group]
    at = history.stored_at.get(str(fact.queue), {}).get(fact.offset)
    what = f"{fact.who} started {fact.offset} of {fact.queue} for {fact.group}, taken at {since.at:.3f}s"
    if older_s and at is not None and at < since.at - older_s - CLOCKS_S:
        yield Violation(NAME, f"{what}, when it was {since.at - at:.3f}s old", fact.at)
    elif backlog and since.end is not None and fact.queue.topic[0] != "%" and fact.offset < since.end - backlog:
        yield Violation(NAME, f"{what}, when {since.end} was the end", fact.at)
