"""Invariant: a process's commits of a queue never fall, unless it has acquired the queue again from further back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from framework.testing.errors import Violation
from framework.testing.swarm.history import Acquired, Committed, History, Remade, Reset, Said

NAME = "offsets go forward"
LATE_S = 30.0
"""How long after a reset a commit from before it may still arrive: its process was stopped, or its line held up."""
LATE_ON_A_LOST_LINE_S = 10.0
"""How long after a connection was lost what was sent on it may still arrive, behind what went by the next one."""


def offsets_forward(history: History) -> Iterator[Violation]:
    """INVARIANTS C3, as the brokers saw it, within one acquisition. Another owner's late commit may fall: repeats."""
    highest: dict[tuple[str, str, str], int] = {}
    begun: dict[tuple[str, str, str], int] = {}
    resets: dict[tuple[str, str], Reset] = {}
    remade: dict[str, float] = {}
    lost: dict[str, float] = {}
    for fact in history.facts:
        if type(fact) is Acquired:
            begun[fact.who, fact.group, fact.queue] = fact.offset
        elif type(fact) is Reset:
            where = fact.group, str(fact.queue)
            resets[where] = _together(resets.get(where), fact)
        elif type(fact) is Remade:
            remade[fact.topic] = fact.at
        elif type(fact) is Said and fact.event in {"disconnected", "not connected"}:
            lost[fact.who] = fact.at
        elif type(fact) is Committed:
            key = (fact.by, fact.group, str(fact.queue))
            before = highest.get(key, 0)
            if fact.offset < 0:
                yield Violation(NAME, f"{fact.by} committed {fact.offset} of {fact.queue} for {fact.group}", fact.at)
                continue
            if fact.offset >= before:
                highest[key] = fact.offset
                begun.pop(key, None)
            elif fact.at < remade.get(fact.queue.topic, -LATE_S) + LATE_S:
                highest[key] = fact.offset  # what was on its way belongs to the topic's former life
            elif fact.at < lost.get(fact.by, -LATE_ON_A_LOST_LINE_S) + LATE_ON_A_LOST_LINE_S:
                continue  # the newer offset is said again, and what the broker has meanwhile costs repeats at most
            elif fact.offset >= begun.get(key, before) or _is_reset(fact, resets.get((fact.group, key[2]))):
                highest[key] = fact.offset  # taken again further back, for instance after the broker had lost commits
            else:
                yield Violation(NAME, f"{fact.by} committed {fact.offset} of {fact.queue} for {fact.group} "
                                f"after {before}", fact.at)  # fmt: skip


def _together(former: Reset | None, reset: Reset) -> Reset:
    """The later one, as far back as the former while that may still act."""
    if former is None or reset.at >= former.at + LATE_S:
        return reset
    return replace(reset, offset=min(reset.offset, former.offset))


def _is_reset(fact: Committed, reset: Reset | None) -> bool:
    """Whether an administrator has sent the group back there; what it knew before may be told once more in between."""
    return reset is not None and fact.offset >= reset.offset and fact.at < reset.at + LATE_S
