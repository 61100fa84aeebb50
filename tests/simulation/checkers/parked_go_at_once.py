"""Invariant: failed messages that could be sent nowhere are sent as soon as a broker is there again, and nothing is
said to be sent of which no broker has a copy.
"""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.facts import Copied, Fault, Life, Said
from tests.simulation.history import History

NAME = "parked messages go at once"
REACHED_S = 20.0
"""Within so long after healing each member has a connection: an address is left alone for ten seconds, and a connect
is given up after three; the rest is for the brokers' disks."""
FAILING = "a send-back fails"
REFUSING = (
    "code-storm", "broker-permission", "retry-permission", "no-retry-queues", "wipe-write-permission", "disk-full",
    "topic-remade", "lose-reply", "stall",
)  # fmt: skip
"""Also faults by which answers are lost or late: the broker stays connected, and the pause grows in the same way."""


def parked_go_at_once(history: History) -> Iterator[Violation]:
    """What waits for an outage to end is sent at its end: a pause between two tries of minutes is for brokers that
    refuse.

    What a broker refused is tried again when its pause is over, since nothing tells that it would not; runs in which
    brokers may refuse copies, or sending them fails by a mark while a broker is there, say nothing here.
    """
    faults = list(history.of(Fault))
    healed_at = next((fact.at for fact in faults if fact.kind == "healed"), None)
    if healed_at is None or any(fact.kind in REFUSING for fact in faults) or FAILING in history.marks:
        return
    parked: dict[tuple[str, str, str], float] = {}
    copied_at: dict[str, float] = {}
    """Group -> when a broker stored the last copy for it."""
    for fact in history.facts:
        if type(fact) is Said and fact.event == "message parked":
            parked[fact.who, fact.fields["group"], fact.fields["queue"]] = fact.at
        elif type(fact) is Said and fact.event == "parked messages sent":
            key = (fact.who, fact.fields["group"], fact.fields["queue"])
            at = parked.pop(key, fact.at)
            if copied_at.get(key[1], -REACHED_S) < at - REACHED_S:  # an answer that was lost may be of before
                what = f"{fact.who} said that it sent what it had parked of {key[2]} for {key[1]}"
                yield Violation(NAME, f"{what}, and no broker has stored a copy", fact.at)
            late_s = fact.at - max(at, healed_at)
            if late_s > REACHED_S:
                what = f"{fact.who} sent what it had parked of {key[2]} for {key[1]}"
                yield Violation(NAME, f"{what} {late_s:.1f}s after it could", fact.at)
        elif type(fact) is Said and fact.event == "parked messages given up":
            parked.pop((fact.who, fact.fields["group"], fact.fields["queue"]), None)  # the next owner's from here on
        elif type(fact) is Copied:
            copied_at[fact.group] = fact.at
        elif type(fact) is Life:
            for key in [key for key in parked if key[0] == fact.who]:
                del parked[key]
