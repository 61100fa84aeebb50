"""Invariant: a failed attempt makes one copy of its message, however often the broker was asked for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from framework.model.reserved import RETRY_PREFIX
from framework.testing.errors import Violation
from framework.testing.swarm.checkers.excuses import excuse
from framework.testing.swarm.history import BURIED, BY_A_MEMBER, Committed, Finished, History

NAME = "one copy an attempt"
FIRST_COPY = 2
"""The attempt that a copy of an original is for."""


def one_copy_an_attempt(history: History) -> Iterator[Violation]:
    """INVARIANTS R2, for the box. Asked of the brokers' own logs, at the end.

    A group that went back to a message may fail it again as well, and the broker cannot tell whether it meant to: where
    a commit fell in one of the queues that the message may have been in, the retry is rather made twice than lost.

    A dead letter is a plain send (it carries its reason), which no broker compares with another one: two failed
    deliveries of a last attempt (or of one that its handler called the last), by an owner and by the one that takes its
    queue over, make two.

    An orderly group's dead letters are plain sends, which brokers cannot tell from new ones when they are repeated. A
    group that was reset may fail the same message again. A broker knows only of copies that it was asked to make: if
    its answer is lost, and it can then not be had again, the copy that a member sends as a message is the second one.
    """
    fallen = {
        (fact.group, fact.queue.topic.startswith(RETRY_PREFIX))
        for fact in history.of(Committed)
        if not fact.is_refused and fact.before is not None and fact.offset < fact.before
    }
    last = history.max_retries + 1
    failed = Counter(
        (fact.group, fact.message_id)
        for fact in history.of(Finished)
        if (fact.attempt == last and not fact.is_ok) or fact.outcome == BURIED
    )
    end = history.facts[-1].at if history.facts else 0.0
    for (group, origin, attempt, whose), count in sorted(Counter(history.copies).items()):
        if count == 1:
            continue
        if attempt > last and count <= failed[group, history.buried.get(origin, origin)]:
            excuse(history, NAME, "its last attempt failed as often")
        elif whose == BY_A_MEMBER or group in history.orderly:
            excuse(history, NAME, "no broker compares plain sends")
        elif group in history.resets:
            excuse(history, NAME, "an administrator moved the group back")
        elif (group, attempt > FIRST_COPY) in fallen:
            excuse(history, NAME, "a commit fell, so that it failed again")
        else:
            yield Violation(NAME, f"{group} has {count} copies of {origin} for retry {attempt} by {whose}", end)
