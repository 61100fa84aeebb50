"""Truth: a failed attempt makes one copy of its message, however often the broker was asked for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from framework.testing.errors import Violation
from framework.testing.history import BY_A_MEMBER, History

NAME = "one copy an attempt"


def one_copy_an_attempt(history: History) -> Iterator[Violation]:
    """INVARIANTS R2, for the box. Asked of the brokers' own logs, at the end.

    An orderly group's dead letters are plain sends, which brokers cannot tell from new ones when they are repeated. A
    group that was reset may fail the same message again. A broker knows only of copies that it was asked to make: if
    its answer is lost, and it can then not be had again, the copy that a member sends as a message is the second one.
    """
    end = history.facts[-1].at if history.facts else 0.0
    for (group, origin, attempt, whose), count in sorted(Counter(history.copies).items()):
        if count > 1 and whose != BY_A_MEMBER and group not in history.orderly and group not in history.resets:
            yield Violation(NAME, f"{group} has {count} copies of {origin} for retry {attempt} by {whose}", end)
