"""Invariant: a failed attempt makes one copy of its message, however often the broker was asked for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from framework.model.reserved import RETRY_PREFIX
from framework.testing.errors import Violation
from tests.simulation.checkers.disturbances import Disturbances
from tests.simulation.checkers.excuses import excuse
from tests.simulation.facts import BURIED, BY_A_MEMBER, Bent, Committed, CopyAsked, Finished
from tests.simulation.history import History

NAME = "one copy an attempt"
KEEPS_ANSWERS = frozenset(
    {
        "crash", "leave", "clock", "split-chunks", "joined-chunks", "more-queues", "fewer-queues", "pause", "resize",
        "subscribe-anew", "live-edit", "consume-mode", "unsubscribe", "damaged-records", "healed", "offsets-reset",
    }
)  # fmt: skip
"""Faults by which no answer of a broker to one that lives is lost or late."""
RECOVERED_S = 5.0
"""How long after a fault an answer may still be missing: a request's patience, and what was held up before it."""
FIRST_COPY = 2
"""The attempt that a copy of an original is for."""


def one_copy_an_attempt(history: History) -> Iterator[Violation]:
    """One copy for each failed attempt, and one dead letter, for the box. Asked of the brokers' own logs, at the end.

    A group that went back to a message may fail it again as well, and the broker cannot tell whether it meant to: where
    a commit fell in one of the queues that the message may have been in, the retry is rather made twice than lost.

    A dead letter is a plain send (it carries its reason), which no broker compares with another one; nor, where a
    handler asked for it early, with a retry that another member's handler asked for: two failed
    deliveries of a last attempt (or of one that its handler called the last), by an owner and by the one that takes its
    queue over, make two.

    An orderly group's dead letters are plain sends as well, and so is the copy that a member sends where it cannot have
    one made: brokers cannot tell them from new ones when they are repeated. They are repeated where an answer may have
    been lost or late, so beside a fault that has this effect; everywhere else there is one. A group that was reset may
    fail the same message again.
    """
    fallen = {
        (fact.group, fact.queue.topic.startswith(RETRY_PREFIX))
        for fact in history.of(Committed)
        if not fact.is_refused and fact.before is not None and fact.offset < fact.before
    }
    last = history.max_retries + 1
    failed = Counter(
        (fact.group, fact.message_id, last if fact.outcome == BURIED else fact.attempt)
        for fact in history.of(Finished)
        if not fact.is_ok
    )
    buried = {(fact.group, fact.message_id) for fact in history.of(Finished) if fact.outcome == BURIED}
    harm = Disturbances(history, KEEPS_ANSWERS, RECOVERED_S)
    bent = [fact.at for fact in history.of(Bent)]
    asked: dict[tuple[str, str], list[float]] = {}
    for fact in history.of(CopyAsked):
        asked.setdefault((fact.group, fact.message_id), []).append(fact.at)
    end = history.facts[-1].at if history.facts else 0.0
    for (group, origin, attempt, whose), count in sorted(Counter(history.copies).items()):
        if count == 1:
            continue
        message_id = history.copied_of.get(origin, origin)
        is_buried = (group, message_id) in buried
        is_plain = whose == BY_A_MEMBER or group in history.orderly or attempt > last or is_buried
        as_often = failed[group, message_id, min(attempt - 1, last)]
        if is_buried and attempt <= last:
            as_often += failed[group, message_id, last]
        if is_plain and count <= as_often:
            excuse(history, NAME, "its attempt failed as often")
        elif is_plain and _is_disturbed(asked.get((group, message_id), ()), harm, bent):
            excuse(history, NAME, "an answer was lost or late, and no broker compares plain sends")
        elif group in history.resets:
            excuse(history, NAME, "an administrator moved the group back")
        elif (group, attempt > FIRST_COPY) in fallen:
            excuse(history, NAME, "a commit fell, so that it failed again")
        else:
            yield Violation(NAME, f"{group} has {count} copies of {origin} for retry {attempt} by {whose}", end)


def _is_disturbed(asked: Sequence[float], harm: Disturbances, bent: Sequence[float]) -> bool:
    """Whether one of these requests was sent where its answer may have been lost or late, or taken for a failure."""
    return any(harm.touch(at, at + RECOVERED_S) or any(at <= when <= at + RECOVERED_S for when in bent) for at in asked)
