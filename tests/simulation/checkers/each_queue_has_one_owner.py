"""Invariant: once everything has healed, each queue has one owner in each group, and shares differ by one at most."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.history import History, machine_of

NAME = "each queue has one owner"


def each_queue_has_one_owner(history: History) -> Iterator[Violation]:
    """Each queue has one owner and shares are even, at the one moment when somebody looked: all are up, and everything
    is handled.

    Who owns a queue is what each member believes. Of an orderly group the broker must believe the same, where it has a
    lock on the queue at all: one that nobody pulls from just then may have run out. Of a broadcasting group each has
    every queue; where a strategy goes by names, only who is named has one, and some are nobody's.
    """
    if not history.members:
        return
    end = history.facts[-1].at if history.facts else 0.0
    counts: dict[tuple[str, str], dict[str, int]] = {}
    """(group, topic), each of which is divided by itself -> who has how many queues."""
    for (group, queue), ownership in sorted(history.owners.items()):
        if group in history.broadcasting:
            if set(ownership.who) != set(history.members):
                found = " and ".join(ownership.who) or "nobody"
                yield Violation(NAME, f"{queue} of {group}, which is broadcasting, is owned by {found} alone", end)
            continue
        allowed = history.allotted.get(group, {}).get(queue)
        if allowed is not None and not {machine_of(who) for who in ownership.who} <= set(allowed):
            yield Violation(NAME, f"{queue} of {group} is {ownership.who[0]}'s, and may be {allowed}'s", end)
        if allowed == ():
            continue
        if len(ownership.who) != 1:
            found = " and ".join(ownership.who) or "nobody"
            yield Violation(NAME, f"{queue} of {group} is owned by {found} among {len(history.members)}", end)
        elif ownership.holder not in {"", ownership.who[0]}:
            what = f"{ownership.who[0]} owns {queue} of {group}"
            yield Violation(NAME, f"{what}, and {ownership.holder} has its lock", end)
        shares = counts.setdefault((group, queue.partition("@")[0]), dict.fromkeys(history.members, 0))
        for who in ownership.who:
            shares[who] += 1
    for (group, topic), each in sorted(counts.items()):
        if group not in history.uneven and max(each.values()) - min(each.values()) > 1:
            yield Violation(NAME, f"{group} is out of balance in {topic}: {each}", end)
