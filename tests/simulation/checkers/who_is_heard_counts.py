"""Invariant: no member divides queues without a member that is alive and that a broker of the topic knows."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.checkers.disturbances import Disturbances
from tests.simulation.checkers.excuses import excuse
from tests.simulation.checkers.little_moves import OF_PROCESSES
from tests.simulation.facts import Bent, Fault, Life, Reassigned, Said
from tests.simulation.history import History

NAME = "who is heard counts"
ASKED_IN = OF_PROCESSES | frozenset(
    {
        "one-broker-restart", "partial-route", "power-cut", "clock", "more-queues", "fewer-queues", "offsets-reset",
        "topic-remade", "wipe-write-permission", "broker-permission", "retry-permission", "no-retry-queues", "pause",
        "resize", "subscribe-anew", "live-edit", "unsubscribe",
    }
)  # fmt: skip
"""Kinds of fault by which nobody is cut off from a broker that others reach, or held."""
LEFT_OUT_MAX_S = 25.0
"""How long a name server leaves a broker out at most."""
HEARD_AGAIN_S = 30.0
"""How long after such a fault members may still find their way back."""
SETTLED_S = 3.0
"""Since when a member must have had queues of the group: whoever divides then has heard of it."""


SETTLED_LATE_S = 12.0
"""The same where members hear late of each other: a look at the list is due each five seconds, and its answer lasts."""
HEARD_LATE = frozenset(
    {"a notice is lost", "a heartbeat is due", "a route is answered", "queues are known", "member lists are known"}
)
"""Rare marks by which they do."""
SILENCE = "not one byte"
"""Why a member leaves a connection that is there, in a run with small limits for requests and long stalls."""


def who_is_heard_counts(history: History) -> Iterator[Violation]:
    """Queues keep their owners while a broker is started anew, or a name server: its list holds only who has come back.

    So nobody takes a queue away from a member of which another broker knows. Who began while a name server left one out
    has never heard of that one, nor it of him.
    """
    harm = Disturbances(history, ASKED_IN | {"healed"}, HEARD_AGAIN_S)
    since: dict[tuple[str, str], float] = {}
    misled, silences = _misled(history), _silences(history)
    settled_s = SETTLED_LATE_S if any(fact.mark in HEARD_LATE for fact in history.of(Bent)) else SETTLED_S
    for fact in history.of(Reassigned):
        if fact.group in history.broadcasting or fact.who in misled:
            continue
        others = fact.heard - {fact.who} - misled
        missed = {who for who in others if since.get((fact.group, who), fact.at) < fact.at - settled_s}
        since.setdefault((fact.group, fact.who), fact.at)
        if fact.counted >= len(missed) + 1:
            continue
        if harm.touch(fact.at, fact.at):
            excuse(history, NAME, "somebody was cut off or held, so that brokers had taken it off their lists")
        elif any(who in missed and at <= fact.at <= at + HEARD_AGAIN_S for at, who in silences):
            excuse(history, NAME, "somebody had left a broker that was silent, which took it off its list")
        else:
            what = f"{fact.who} divided {fact.group} among {fact.counted}"
            yield Violation(NAME, f"{what}, while brokers list {', '.join(sorted(missed))} beside it", fact.at)


def _misled(history: History) -> set[str]:
    """The processes that began while a broker was left out of routes."""
    begun = [fact.at for fact in history.of(Fault) if fact.kind == "partial-route"]
    return {
        fact.who
        for fact in history.of(Life)
        if fact.event == "started" and any(at <= fact.at <= at + LEFT_OUT_MAX_S for at in begun)
    }


def _silences(history: History) -> list[tuple[float, str]]:
    """When members gave up a connection on which nothing came."""
    return [
        (fact.at, fact.who)
        for fact in history.of(Said)
        if fact.event == "disconnected" and str(fact.fields["reason"]).startswith(SILENCE)
    ]
