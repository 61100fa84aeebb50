"""Invariant: members that come and go move little: one that is back in time moves nothing, a flapping one not much."""

from __future__ import annotations

from collections.abc import Iterator

from framework.core import limits
from framework.testing.errors import Violation
from tests.simulation.checkers.disturbances import Disturbances
from tests.simulation.checkers.excuses import excuse
from tests.simulation.facts import Bent, Fault, Life, Reassigned
from tests.simulation.history import History, place_of
from tests.simulation.rare.rare_marks import SECONDS

NAME = "little moves"
OF_PROCESSES = frozenset({"crash", "leave", "late-jobs", "split-chunks", "joined-chunks", "stall", "healed"})
"""Kinds of fault that end a process or do not part it from its broker: they take nobody off the list unseen."""
FIRST = "1"
"""A process that was never started before."""
BEGUN_S = 15.0
"""By when all who were to be there have found each other."""
HEARD_AGAIN_S = 30.0
"""How long after another fault members may still find each other."""
UNSEEN = "a fault may have taken members off the list unseen"
OF_A_ROUND = frozenset({"queues are known", "member lists are known"})
"""Rare marks that stretch the division of a topic's queues, each topic's in turn."""
BEFORE = "it divided since before all were to have found each other"
SLACK_S = 1.5
WINDOW_S = limits.CHANGES_WINDOW_MS / 1000


def little_moves(history: History) -> Iterator[Violation]:
    """Restarts and flapping move little, in groups whose members have names, or are protected by their machines.

    While nobody with a name was away for its grace, nobody loses a queue. Within a minute nobody's share
    changes more often than a flapper may, times those that came and went.
    """
    if not (history.grace_s or history.is_protected):
        return
    harm = Disturbances(history, OF_PROCESSES, HEARD_AGAIN_S)
    if history.grace_s:
        yield from _lost_beside_seats(history, harm)
    yield from _changed_too_often(history, harm)


def _lost_beside_seats(history: History, harm: Disturbances) -> Iterator[Violation]:
    until = _away_too_long(history)
    begun = _begun(history)
    for fact in history.of(Reassigned):
        if not (begun < fact.at < until and fact.lost):
            continue
        if harm.touch(0.0, fact.at):
            excuse(history, NAME, UNSEEN)
        elif _divides_since(history, fact) <= begun:
            excuse(history, NAME, BEFORE)
        else:
            lost = ", ".join(fact.lost)
            yield Violation(NAME, f"{fact.who} lost {lost} of {fact.group}, and nobody was away for its grace", fact.at)


def _divides_since(history: History, moved: Reassigned) -> float:
    """When the round began that ended with this: one stretched step followed the other."""
    since = moved.at
    for bent in reversed(list(history.of(Bent))):
        is_step = bent.who == moved.who and bent.mark in OF_A_ROUND
        if is_step and since - max(SECONDS) - SLACK_S < bent.at < since:
            since = bent.at
    return since


def _begun(history: History) -> float:
    """Since when everybody is there who ever is."""
    firsts = [fact.at for fact in history.of(Life) if fact.event == "started" and fact.who.partition(".")[2] == FIRST]
    return max(firsts, default=0.0) + BEGUN_S


def _away_too_long(history: History) -> float:
    """When the first of them had been away for as long as its seat is kept, or two were away at once; at the latest the
    healing, by which topics may get queues.

    Who comes back then may ask somebody who was away himself, and knows of no seat.
    """
    left: dict[str, float] = {}
    there: set[str] = set()
    for fact in history.facts:
        machine = fact.who.partition(".")[0]
        if isinstance(fact, Fault) and fact.kind == "healed":
            return fact.at
        if isinstance(fact, Life) and fact.event in {"crashed", "lost power", "left"}:
            left.setdefault(machine, fact.at)
            there.discard(fact.who)
            if len(left) > 1 or (not there and fact.at > _begun(history)):
                return fact.at
        elif isinstance(fact, Reassigned) and fact.gained:
            left.pop(machine, None)
            there.add(fact.who)
        late = [at for at in left.values() if fact.at > at + history.grace_s - SLACK_S]
        if late:
            return fact.at
    return float("inf")


def _changed_too_often(history: History, harm: Disturbances) -> Iterator[Violation]:
    ends = [
        (fact.at, fact.who.partition(".")[0])
        for fact in history.of(Life)
        if fact.event in {"crashed", "lost power", "left"} and fact.who.startswith("app-")
    ]
    begun, seen = _begun(history), dict[tuple[str, str], list[float]]()
    given = {
        (fact.who, fact.group, place_of(fact.gained[0]).topic)
        for fact in history.of(Reassigned)
        if fact.gained and fact.at < begun
    }
    healed_at = next((fact.at for fact in history.of(Fault) if fact.kind == "healed"), float("inf"))
    for fact in history.of(Reassigned):
        is_asked = begun <= fact.at < healed_at and fact.who.partition(".")[2] == FIRST
        if not is_asked or all(queue.startswith("%") for queue in fact.gained + fact.lost):
            continue  # who has come back is given its share, and retry topics come into being
        share = (fact.who, fact.group, place_of((fact.gained + fact.lost)[0]).topic)
        if share not in given and not fact.lost:
            given.add(share)  # its first, however long its routes took
            continue
        instants = seen.setdefault((fact.who, fact.group), [])
        instants.append(fact.at)
        lately = [at for at in instants if at > fact.at - WINDOW_S]
        movers = {who for at, who in ends if fact.at - WINDOW_S - history.grace_s - SLACK_S < at <= fact.at}
        if len(lately) <= limits.CHANGES_MAX * len(movers):
            continue
        if harm.touch(lately[0], fact.at):
            excuse(history, NAME, UNSEEN)
        else:
            what = f"{fact.who}'s share of {fact.group} changed {len(lately)} times within a minute"
            yield Violation(NAME, f"{what}, of {len(movers)} that came and went", fact.at)
