"""Truth: a failed attempt makes one copy of its message, however often the broker was asked for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from framework.testing.errors import Violation
from framework.testing.history import History

NAME = "one copy an attempt"


def one_copy_an_attempt(history: History) -> Iterator[Violation]:
    """INVARIANTS R2, for the box. Asked of the brokers' own logs, at the end.

    An orderly group's dead letters are plain sends, which brokers cannot tell from new ones when they are repeated. A
    group that was reset may fail the same message again. And a broker knows of its own copies only: where the answer to
    a send-back was lost with the broker that had stored it, the copy that takes the other road is the second one.
    """
    end = history.facts[-1].at if history.facts else 0.0
    for (group, origin, attempt, broker), count in sorted(Counter(history.copies).items()):
        if count > 1 and group not in history.orderly and group not in history.resets:
            yield Violation(NAME, f"{group} has {count} copies of {origin} for retry {attempt} on {broker}", end)
