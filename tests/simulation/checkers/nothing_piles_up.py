"""Invariant: memory is bounded: while nothing is owed, tables of work are empty, and none grows or is large."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.facts import Finished, Held, Started
from tests.simulation.history import History

NAME = "nothing piles up"
OWED = frozenset(
    {
        "BatchPool._ready", "BatchPool._running", "BatchPool.fenced", "WorkerPool._ready", "WorkerPool.fenced",
        "Orderly._ready",
        "ThreadPool._out", "ThreadPool._ready", "ThreadPool.fenced", "Expiry._decided", "Window.again",
        "Line._portions", "Line._tries", "Line._uncommitted", "Line.after_copies", "Line.copies", "Window._chunks",
        "RetrySender._of_next_owner",
        "RetrySender._of_window", "RetrySender._parked", "RetrySender._stuck", "RetrySender._waiting",
        "ConsumerGroup._resets",
        "RetryRooms._under_way", "RouteTable._under_way", "FrameWriter._waiting",
        "FrameWriter.frames", "AnswerWriter._waiting", "AnswerWriter.frames", "Large._waiting", "Turns._waiting",
        "Served._works", "Served._inbox", "Served._commands", "SavedTable._dirty", "SavedTable._in_flight",
        "Rewinds._in_flight", "Writer._waiting", "Writer._idle",
    }
)  # fmt: skip
"""Tables of work: what stands in them is to be handled, tried again, sent, answered or written."""
MOMENT_S = 2.0
"""For how long something may be under way in one of them: a heartbeat, or an offset on its way to the disk."""
LOOKS_OWED_MIN = 3
"""Two looks may each meet an offset on its way to the disk: the last one of the work, and a new owner's first."""
MOST = 80
"""Entries of any table, all objects of its class together: members, queues and groups of a run are a few dozen."""
WITH_TIME = frozenset(
    {
        "Dispatch._handlers", "Holds._deadlines", "RemotingCommand.fields", "Window._marks", "Rates._minute",
        "Rates._hour", "Throughput._ticks", "Throughput._minutes", "_Kind.newest",
    }
)  # fmt: skip
"""Tables with a limit of their own. The requests that a broker knows; pulls that were answered, until their time is
over; fields of those that wait; offsets until they are confirmed, of which a window forgets those above a thousand;
figures and log lines of the last minutes, which fill up while time passes.
"""
MOST_OF = {"SavedTable._values": 240}
"""The box has an offset for each queue of each group as well."""
GROWTH_MIN = 20
"""So many entries more: the last members that come back to a broker take their places until the end of a run."""
LOOKS_MIN = 5
"""So many looks, seconds apart, each with more than the one before: that is growth. A member that has just joined takes
its queues sooner."""


def nothing_piles_up(history: History) -> Iterator[Violation]:
    """Asked of each application and of the broker from the moment on when everything is handled and committed until the
    first one leaves. A run that is drained just before its end is looked at twice, and says little.
    """
    looks: dict[str, list[Held]] = {}
    at_work: Counter[str] = Counter()
    for fact in history.facts:
        if isinstance(fact, Started):
            at_work[fact.who] += 1
        elif isinstance(fact, Finished):
            at_work[fact.who] -= 1
        elif type(fact) is Held and at_work[fact.who]:
            excuse(history, NAME, "a handler that hangs was still at work, on what another member has handled")
        elif type(fact) is Held:
            looks.setdefault(fact.who, []).append(fact)
    for who, held in sorted(looks.items()):
        last = held[-1]
        for table in sorted(last.sizes):
            counts = [look.sizes.get(table, 0) for look in held]
            if table in OWED and len(counts) >= LOOKS_OWED_MIN and min(counts) > 0 and last.at > held[0].at + MOMENT_S:
                what = f"{who} has {counts[-1]} in {table}, and nothing was owed since {held[0].at:.3f}s"
                if history.switched:
                    excuse(history, NAME, "a group that pulled and popped may hold what another member has handled")
                else:
                    yield Violation(NAME, what, last.at)
            # At all looks: a queue that is just being handed over still has its window.
            if table not in WITH_TIME and min(counts) > MOST_OF.get(table, MOST) and last.at > held[0].at + MOMENT_S:
                yield Violation(NAME, f"{who} has {counts[-1]} in {table} while nothing is owed", last.at)
            if table not in WITH_TIME and _grows(counts):
                told = ", ".join(map(str, counts))
                yield Violation(NAME, f"{table} of {who} grows while nothing is owed: {told}", last.at)


def _grows(counts: list[int]) -> bool:
    """Whether each look found more than the one before, all the time that there was."""
    return (
        len(counts) >= LOOKS_MIN
        and counts[-1] - counts[0] >= GROWTH_MIN
        and all(before < after for before, after in pairwise(counts))
    )
