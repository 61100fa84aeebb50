"""Truth: once everything has healed, each queue has one owner in each group, and shares differ by one at most."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from framework.testing.history import History

NAME = "each queue has one owner"


def each_queue_has_one_owner(history: History) -> Iterator[Violation]:
    """INVARIANTS B1 and B2, at the one moment when somebody looked: all are up, and everything is handled.

    Who owns a queue is what each member believes. Of an orderly group the broker must believe the same, where it has a
    lock on the queue at all: one that nobody pulls from just then may have run out.
    """
    if not history.members:
        return
    end = history.facts[-1].at if history.facts else 0.0
    counts = {group: dict.fromkeys(history.members, 0) for group in history.groups}
    for (group, queue), ownership in sorted(history.owners.items()):
        if len(ownership.who) != 1:
            found = " and ".join(ownership.who) or "nobody"
            yield Violation(NAME, f"{queue} of {group} is owned by {found} among {len(history.members)}", end)
        elif ownership.holder not in {"", ownership.who[0]}:
            what = f"{ownership.who[0]} owns {queue} of {group}"
            yield Violation(NAME, f"{what}, and {ownership.holder} has its lock", end)
        for who in ownership.who:
            counts[group][who] += 1
    for group, each in sorted(counts.items()):
        if group not in history.uneven and max(each.values()) - min(each.values()) > 1:
            yield Violation(NAME, f"{group} is out of balance: {each}", end)
