"""Invariant: a snapshot tells what is so: it counts each end of a handler once, and shows no work where none is.

Looked at while nothing is owed. In calm runs it is exact; in others a copy may have gone with its queue before it was
counted, a queue may be positioned anew, and a topic that was made anew has offsets of its former life. What fails in
order while its queue is left is tried again, and counted, by the next owner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.facts import OK, Committed, Finished, Pictured, Started
from tests.simulation.history import History

NAME = "a snapshot tells"
SETTLED = ("handled", "retried", "dead_lettered", "dropped", "late")
"""What a handler's end may be counted as; of what is dropped, repeats were given to no handler."""
LOOKS_MIN = 3
"""So many looks, some seconds apart: what is there at each of them is not just under way."""
AHEAD = frozenset({"lag"})
"""What a member may believe of a queue whose end or offset it is about to ask anew."""


@dataclass(slots=True)
class _Ends:
    at_work: int = 0
    by_outcome: Counter[str] = field(default_factory=Counter)


def snapshots_tell(history: History) -> Iterator[Violation]:
    """Asked of each group of each process, at the looks until the first member leaves."""
    ends: dict[tuple[str, str], _Ends] = {}
    stored: dict[tuple[str, str], int] = {}
    looks: dict[tuple[str, str], list[Pictured]] = {}
    off: dict[tuple[str, str, str], list[str]] = {}
    """(process, group, queue) -> at each look what is wrong with its offset."""
    for fact in history.facts:
        match fact:
            case Started():
                ends.setdefault((fact.who, fact.group), _Ends()).at_work += 1
            case Finished():
                mine = ends.setdefault((fact.who, fact.group), _Ends())
                mine.at_work -= 1
                mine.by_outcome[fact.outcome] += 1
            case Committed() if not fact.is_refused:
                stored[fact.group, str(fact.queue)] = fact.offset
            case Pictured() if fact.group not in history.popping:
                mine = ends.get((fact.who, fact.group), _Ends())
                if mine.at_work:
                    excuse(history, NAME, "a handler that hangs was still at work, on what another member has handled")
                    continue
                looks.setdefault((fact.who, fact.group), []).append(fact)
                is_exact = history.is_calm and fact.group not in history.orderly
                for what in _wrong_counts(fact, mine.by_outcome, is_exact=is_exact):
                    yield Violation(NAME, f"{fact.who} of {fact.group}: {what}", fact.at)
                for queue, offset in fact.committable.items():
                    told = stored.get((fact.group, queue), 0)
                    is_off = fact.group not in history.broadcasting and 0 <= offset != told
                    what = f"{offset} of {queue}, and {told} was committed" if is_off else ""
                    off.setdefault((fact.who, fact.group, queue), []).append(what)
    for (who, group), seen in looks.items():
        yield from _lasting(seen, is_calm=history.is_calm)
        for queue in seen[-1].committable:
            said = off[who, group, queue]
            if history.is_calm and len(said) >= LOOKS_MIN and all(said):
                yield Violation(NAME, f"{who} of {group} shows {said[-1]}", seen[-1].at)


def _wrong_counts(fact: Pictured, ends: Counter[str], *, is_exact: bool) -> Iterator[str]:
    counts, ended, ok = fact.counts, ends.total(), ends[OK]
    settled = sum(counts[event] for event in SETTLED) - counts["repeats"]
    failed = ended - ok
    least = ended if is_exact else ended - failed
    if not least <= settled <= ended:
        told = ", ".join(f"{event} {counts[event]}" for event in SETTLED)
        yield f"{ended} handlers ended, and {settled} messages were counted: {told}"
    if counts["handled"] > ok:
        yield f"{ok} handlers ended well, and {counts['handled']} messages count as handled"


def _lasting(seen: Sequence[Pictured], *, is_calm: bool) -> Iterator[Violation]:
    """What is wrong at each of the looks."""
    if len(seen) < LOOKS_MIN:
        return
    last = seen[-1]
    for name in last.owed:
        if min(each.owed[name] for each in seen) > 0 and (is_calm or name not in AHEAD):
            what = f"{last.who} of {last.group} shows {last.owed[name]} {name}, and nothing is owed"
            yield Violation(NAME, what, last.at)
    if all(each.moved != len(each.committable) for each in seen):
        what = f"{last.who} of {last.group} counts {last.moved} queues gained and kept, and has {len(last.committable)}"
        yield Violation(NAME, what, last.at)
    if is_calm and all(each.not_ready for each in seen):
        yield Violation(NAME, f"{last.who} is not ready: {last.not_ready[0]}", last.at)
